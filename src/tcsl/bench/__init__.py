"""Many runs: several seeds side by side now, the whole grid later."""
