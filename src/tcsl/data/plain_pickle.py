"""Pickle files of plain values, read without unpickling: nothing in the file is imported or called."""

from __future__ import annotations

import pickletools
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tcsl.errors import InputError

_PLAIN = "None, bool, int, float, str, bytes, tuple, list, dict, set, frozenset"
_DEEPEST = 100  # levels of nesting; hashing a much deeper tuple overflows the C stack
_ALLOWANCE = 2**26  # units of work, each a value visited or about 64 bytes of memory: some 4 GB at the worst

_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_SCALARS = {
    *("NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("FLOAT", "BINFLOAT", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
}
_GETS = {"GET", "BINGET", "LONG_BINGET"}
_TAKES_TO_MARK = {"LIST", "TUPLE", "DICT", "FROZENSET", "APPENDS", "SETITEMS", "ADDITEMS"}
_TAKES = {"APPEND": 1, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "SETITEM": 2, "STACK_GLOBAL": 2, "REDUCE": 2}
_GLOBALS = {
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "list", "dict")),
    *("collections.defaultdict", "collections.OrderedDict"),
    # protocols 0 to 2 have no opcode for bytes: they call `encode(text, "latin1")`, or `bytes()` where there are none
    *("_codecs.encode", "builtins.bytes", "__builtin__.bytes"),
}


class _Global(NamedTuple):
    """What stands on the stack for a global: its module and name, never the thing itself."""

    name: str
    position: int


def read_plain_pickle(path: Path, *, limit: int = 2**30) -> Any:
    """Read a pickle file that holds plain values only, whoever wrote it.

    `defaultdict` and `OrderedDict` become plain dicts, Python 2 strings become text (Latin-1). All else that a pickle
    can hold is refused, and so is a value that contains itself.

    Parameters
    ----------
    limit : the largest file to read, in bytes

    >>> import pickle, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "subsets.pkl"
    ...     _ = path.write_bytes(pickle.dumps({"cat(sofa)": {"2330"}}))
    ...     read_plain_pickle(path)
    {'cat(sofa)': {'2330'}}
    """
    try:
        if not path.is_file():
            raise InputError(f"expected a pickle file at {path}, found none; check the path")
        if (size := path.stat().st_size) > limit:
            raise InputError(f"{path}: expected at most {limit:,} bytes, got {size:,}; is it the right file?")
        return _interpret(path.read_bytes(), path)
    except OSError as error:
        raise InputError(f"could not read {path}: {error.strerror or error}") from error


def _interpret(data: bytes, path: Path) -> Any:
    """Run the opcodes on a stack of plain values; MARK sets the stack aside until an opcode takes what came since."""
    stream, left = BytesIO(data), _ALLOWANCE
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    try:
        while True:
            position, name = stream.tell(), "unreadable"
            name, argument = _next_opcode(stream)
            items: list[Any] = []
            if name in _TAKES_TO_MARK:
                items, stack = stack, marks.pop()
            elif name in _TAKES:
                items = [stack.pop() for _ in range(_TAKES[name])][::-1]
            left -= 1 if name in _SCALARS or name in _GETS else 4  # an empty set takes 216 bytes
            if left < 0:
                raise ValueError(f"more than {_ALLOWANCE:,} units of work, which no plain metadata needs")
            match name:
                case _ if name in _SCALARS:
                    stack.append(argument)
                case _ if name in _GETS:
                    if argument not in memo:
                        raise ValueError(f"memo index {argument}, under which nothing was stored")
                    stack.append(memo[argument])
                case "MEMOIZE":
                    memo[len(memo)] = stack[-1]
                case "PUT" | "BINPUT" | "LONG_BINPUT":
                    if not 0 <= argument < len(data):  # pickle counts up, and an entry takes a byte or more
                        raise ValueError(f"memo index {argument}, more than the file can hold")
                    memo[argument] = stack[-1]
                case "MARK":
                    marks.append(stack)
                    stack = []
                case "EMPTY_LIST" | "LIST":
                    stack.append(items)
                case "APPEND" | "APPENDS":
                    _top(stack, list).extend(items)
                case "EMPTY_TUPLE" | "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                    stack.append(tuple(items))
                case "EMPTY_SET":
                    stack.append(set())
                case "ADDITEMS":
                    left -= _visit(items, left)
                    _top(stack, set).update(items)
                case "FROZENSET":
                    left -= _visit(items, left)
                    stack.append(frozenset(items))
                case "EMPTY_DICT" | "DICT" | "SETITEM" | "SETITEMS":
                    if name in ("EMPTY_DICT", "DICT"):
                        stack.append({})
                    left -= _visit(items[::2], left)
                    _top(stack, dict).update(zip(items[::2], items[1::2], strict=True))
                case "GLOBAL" | "STACK_GLOBAL":
                    qualified = argument.replace(" ", ".") if name == "GLOBAL" else ".".join(items)
                    _check(qualified in _GLOBALS, f"the global {qualified!r:.100}")
                    stack.append(_Global(qualified, position))
                case "REDUCE":
                    value, cost = _call(items[0], items[1], left)
                    stack.append(value)
                    left -= cost
                case "PROTO":
                    _check(argument <= 5, f"protocol {argument}, where 0 to 5 are known")
                case "FRAME":
                    _check(argument <= len(data) - stream.tell(), "a frame that goes on past the end of the file")
                case "STOP":
                    whole = not marks and len(stack) == 1 and stream.tell() == len(data)
                    _check(whole, "an end that is not that of one value and of the file")
                    _visit(stack, _ALLOWANCE, result=True)
                    return stack[0]
                case _:
                    raise ValueError(f"the opcode {name}")
    # DeprecationWarning: text with an escape that Python does not know, where warnings are errors
    except (ValueError, TypeError, IndexError, DeprecationWarning) as error:
        raise InputError(
            f"{path}: expected a whole pickle of only plain values ({_PLAIN}), got at byte {position} ({name}): "
            f"{error!s:.200}. Other pickles can run code, so only plain values are read: save the file again with "
            "those; if it was damaged on its way here, fetch it again"
        ) from error


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _next_opcode(stream: BytesIO) -> tuple[str, Any]:
    """Return the next opcode's name and argument; `pickletools.genops` would take Python 2 strings for ASCII."""
    code = stream.read(1)
    opcode = _OPCODES.get(code)
    if opcode is None:
        raise ValueError(f"no opcode but {code!r}" if code else "the end of the file before its STOP opcode")
    if opcode.name == "STRING":
        text: Any = pickletools.read_stringnl(stream, decode=False)
        return opcode.name, text.decode("unicode_escape")
    return opcode.name, opcode.arg.reader(stream) if opcode.arg else _CONSTANTS.get(opcode.name)


def _top(stack: list[Any], kind: type) -> Any:
    _check(type(stack[-1]) is kind, f"a {type(stack[-1]).__name__} to add to, where a {kind.__name__} belongs")
    return stack[-1]


def _call(function: Any, arguments: Any, left: int) -> tuple[Any, int]:
    """Return the value that a call as pickle writes it stands for, and the cost of what the call copies."""
    _check(type(function) is _Global and type(arguments) is tuple, "a call without a global and a tuple of arguments")
    match (function.name.split(".")[1], *arguments):
        case ("set" | "frozenset" as kind, list(members)):
            cost = _visit(members, left)
            return (set(members) if kind == "set" else frozenset(members)), cost
        case ("defaultdict",) | ("defaultdict", _Global()) | ("OrderedDict",):
            return {}, 0  # the items follow
        case ("OrderedDict", list(pairs)) if all(type(pair) is list and len(pair) == 2 for pair in pairs):  # Python 2
            cost = _visit([key for key, _ in pairs], left)
            return dict(pairs), cost
        case ("bytes",):
            return b"", 0
        case ("encode", str(text), "latin1"):
            return text.encode("latin-1"), 1 + len(text) // 64
    raise ValueError(f"a call of {function.name} with arguments that pickle does not write for it")


def _visit(values: list[Any], left: int, *, result: bool = False) -> int:
    """Count the values and all that they hold, as hashing them will visit it; refuse too much or too deep.

    A shared part counts each time: a tuple of one tuple twice, and so on for 60 levels, takes for ever to hash. The
    file's result is not hashed, so its shared parts count once a level; it must not hold a global.
    """
    nested = (tuple, list, dict, set, frozenset)
    cost, level = len(values), [value for value in values if isinstance(value, nested)]
    for _ in range(_DEEPEST + 1):
        if result:
            level = list({id(value): value for value in level}.values())
            for found in (value for value in level if type(value) is _Global):
                raise ValueError(f"the global {found.name} of byte {found.position} as a value")
        cost += sum(map(len, level))
        _check(cost <= left, "keys or set members that take for ever to hash")
        if not level:
            return cost
        members = (chain(value, value.values()) if isinstance(value, dict) else value for value in level)
        level = [member for member in chain.from_iterable(members) if isinstance(member, nested)]
    raise ValueError(f"values nested more than {_DEEPEST} levels deep, or within themselves")
