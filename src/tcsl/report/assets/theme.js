// Light and dark: the system's, unless the switch says otherwise.
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const themeListeners = [];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : darkSystem.matches;
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function tellTheme() {
  for (const listener of themeListeners) listener();
}

at("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  tellTheme();
});
darkSystem.addEventListener("change", tellTheme);

// Paper is white.
let beforePrint;
addEventListener("beforeprint", () => {
  beforePrint = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  tellTheme();
});
addEventListener("afterprint", () => {
  if (beforePrint) document.documentElement.dataset.theme = beforePrint;
  else delete document.documentElement.dataset.theme;
  tellTheme();
});
