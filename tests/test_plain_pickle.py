"""The reader of plain pickles: every plain value comes back, and nothing else is read, let alone run."""

import datetime
import os
import pickle
import random
import struct
from collections import OrderedDict, defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcsl.data import plain_pickle
from tcsl.data.plain_pickle import read_plain_pickle
from tcsl.errors import InputError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
METADATA = {
    "cat(sofa)": {"2330", "61"},
    "dog": ["7", "7"],
    "é": (1, -(2**70), 0.5, None, True, b"\xff", frozenset("ab")),
}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
keys = st.recursive(scalars, lambda part: st.tuples(part, part) | st.frozensets(part, max_size=3), max_leaves=4)
values = st.recursive(
    keys | st.sets(keys, max_size=5),
    lambda part: st.lists(part) | st.lists(part, max_size=4).map(tuple) | st.dictionaries(keys, part),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("pickles") / "file.pkl"

    def read_bytes(data: bytes, **options):
        path.write_bytes(data)
        return read_plain_pickle(path, **options)

    return read_bytes


def exact(value) -> str:
    """Spell a value out with its types, so that 1, 1.0 and True differ and NaN equals itself."""
    if isinstance(value, dict):
        return f"dict {[(exact(k), exact(v)) for k, v in value.items()]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} {[exact(v) for v in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} {sorted(exact(v) for v in value)}"
    return repr(value)


# What is read


@given(value=values, protocol=st.sampled_from(PROTOCOLS))
def test_every_plain_value_comes_back(read, value, protocol):
    assert exact(read(pickle.dumps(value, protocol))) == exact(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 255, 256, 1000, 1001])
def test_every_size_comes_back(read, size, protocol):
    """Pickle changes opcodes with the length: of tuples at 4, of batches at 1,000, of text and memo indices at 256."""
    text = "x" * size
    numbers = range(10**6, 10**6 + size)
    words = [f"word {n}" for n in numbers]
    value = [text, text.encode(), 1 << size * 8, words, words, tuple(numbers), set(words), frozenset(numbers)]
    value += [dict.fromkeys(words, text)]
    assert exact(read(pickle.dumps(value, protocol))) == exact(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("factory", [set, frozenset, list, dict, None])
def test_special_dicts_become_plain_dicts(read, factory, protocol):
    items = {"cat": {"1", "2"}, "dog": {"3"}}
    for special in (defaultdict(factory, items), OrderedDict(items), defaultdict(factory), OrderedDict()):
        result = read(pickle.dumps({"kept": special, "again": special}, protocol))
        assert result == {"kept": dict(special), "again": dict(special)}
        assert type(result["kept"]) is dict


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shared_parts_stay_shared(read, protocol):
    part = ["cat"]
    first, second = read(pickle.dumps([part, part], protocol))
    assert first is second


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x80\x02c__builtin__\nset\nq\x00]q\x01(U\x041234q\x02U\x02\xe99e\x85q\x03Rq\x04.", {"1234", "é9"}),
        (b"(dp0\nS'caf\\xe9\\n'\np1\nc__builtin__\nset\np2\n((lp3\nS\"it's\"\nap4\ntp5\nRp6\ns.", {"café\n": {"it's"}}),
        (b"(S'a'\nI1\nS'b'\n(I2\nI01\nld.", {"a": 1, "b": [2, True]}),
        (b"\x8d\x02" + bytes(7) + b"\xc3\xa9.", "é"),
        (b"\x80\x02T\x02\x00\x00\x00a\xff.", "aÿ"),
        (
            b"\x80\x02ccollections\nOrderedDict\nq\x00]q\x01(]q\x02(K\x02U\x01be]q\x03(K\x01U\x01aee\x85q\x04R.",
            {2: "b", 1: "a"},
        ),
    ],
)
def test_what_python_2_wrote(read, data, value):
    assert exact(read(data)) == exact(value)


# What is refused


class Runs:
    """Pickled as a call of `os.system`, which leaves a file behind."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_code_is_not_run(read, protocol, tmp_path):
    data = pickle.dumps({"harmless": [1], "hostile": Runs(tmp_path / "marker")}, protocol)
    with pytest.raises(
        InputError,
        match=r"file.pkl.*at byte \d+ \((STACK_)?GLOBAL\): the global '(posix|nt).system'.*only plain values",
    ):
        read(data)
    assert not (tmp_path / "marker").exists()
    pickle.loads(data)  # the same bytes do run where they are unpickled
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (SimpleNamespace(a=1), "SimpleNamespace"),
        (np.arange(3), "numpy"),
        (np.float64(1), "numpy"),
        (datetime.date(2020, 1, 1), "datetime.date"),
        (Path("a"), "pathlib"),
        (1j, "complex"),
        (range(3), "range"),
        (print, "print"),
        (defaultdict(int), "int|long"),
        (bytearray(b"a"), "bytearray|BYTEARRAY8"),
    ],
)
def test_objects_are_refused_by_name(read, value, named, protocol):
    with pytest.raises(InputError, match=rf"at byte \d+ \(\w+\): the (global|opcode) '?[\w.]*({named})"):
        read(pickle.dumps({"key": [value]}, protocol))


@pytest.mark.parametrize(
    ("data", "byte", "reason"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", 0, "the global 'os.system'"),
        (b"\x8c\x08builtins\x8c\x04eval\x93.", 16, "the global 'builtins.eval'"),
        (b"(S'true'\nios\nsystem\n.", 9, "the opcode INST"),
        (b"(c__builtin__\nset\no.", 18, "the opcode OBJ"),
        (b"c__builtin__\nset\n)\x81.", 18, "the opcode NEWOBJ"),
        (b"c__builtin__\nset\n)}\x92.", 19, "the opcode NEWOBJ_EX"),
        (b"c__builtin__\nset\n]\x85R}b.", 21, "the opcode BUILD"),
        (b"}}b.", 2, "the opcode BUILD"),
        (b"Pname\n.", 0, "the opcode PERSID"),
        (b"NQ.", 1, "the opcode BINPERSID"),
        (b"\x82\x01.", 0, "the opcode EXT1"),
        (b"\x83\x01\x00.", 0, "the opcode EXT2"),
        (b"\x84\x01\x00\x00\x00.", 0, "the opcode EXT4"),
        (b"\x96" + bytes(8) + b".", 0, "the opcode BYTEARRAY8"),
        (b"\x97.", 0, "the opcode NEXT_BUFFER"),
        (b"N2.", 1, "the opcode DUP"),
        (b"NN0.", 2, "the opcode POP"),
        (b"c__builtin__\nset\n.", 17, "the global __builtin__.set of byte 0 as a value"),
        (b"](c__builtin__\nset\n\x85e.", 21, "the global __builtin__.set of byte 2 as a value"),
        (b"c__builtin__\nset\n)R.", 18, "a call of __builtin__.set with arguments"),
        (b"c__builtin__\nset\nX\x02\x00\x00\x00ab\x85R.", 25, "a call of __builtin__.set with arguments"),
        (b"c__builtin__\nset\n]R.", 18, "a call without a global and a tuple"),
        (b"c__builtin__\nlist\n]\x85R.", 20, "a call of __builtin__.list with arguments"),
        (b"c__builtin__\ndict\n)R.", 19, "a call of __builtin__.dict with arguments"),
        (b"c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", 25, "a call of __builtin__.bytes with arguments"),
        (b"ccollections\ndefaultdict\nN}\x86R.", 28, "a call of collections.defaultdict with arguments"),
        (b"ccollections\nOrderedDict\n](](NNNee\x85R.", 35, "a call of collections.OrderedDict with arguments"),
        (
            b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
            33,
            "a call of _codecs.encode with arguments",
        ),
        (b"X\x03\x00\x00\x00set]\x85R.", 10, "a call without a global and a tuple"),
    ],
)
def test_what_pickle_writes_for_no_plain_value_is_refused(read, data, byte, reason):
    with pytest.raises(InputError) as caught:
        read(data)
    assert f"at byte {byte} (" in str(caught.value)
    assert reason in str(caught.value)
    assert "only plain values are read" in str(caught.value)


# What is damaged


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the end of the file before its STOP opcode"),
        (b".", "not that of one value"),
        (b"NN.", "not that of one value"),
        (b"(N.", "not that of one value"),
        (b"N.N.", "not that of one value and of the file"),
        (b"\x80\x06N.", "protocol 6"),
        (b"\xff", "no opcode"),
        (b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "past the end"),
        (b"a.", "pop from empty list"),
        (b"N\x86.", "pop from empty list"),
        (b"t.", "pop from empty list"),
        (b"(q\x00.", "out of range"),
        (b"NNa.", "a NoneType to add to, where a list belongs"),
        (b"](NNu.", "a list to add to, where a dict belongs"),
        (b"}(N\x90.", "a dict to add to, where a set belongs"),
        (b"}(Nu.", "shorter"),
        (b"}]Ns.", "unhashable"),
        (b"\x8f(]\x90.", "unhashable"),
        (b"(]\x91.", "unhashable"),
        (b"c__builtin__\nset\n](]e\x85R.", "unhashable"),
        (b"NN\x93.", "sequence item 0"),
        (b"h\x00.", "memo index 0, under which nothing was stored"),
        (b"g-1\n.", "memo index -1, under which nothing was stored"),
        (b"Np-1\n.", "memo index -1, more than the file can hold"),
        (b"I" + b"9" * 5000 + b"\n.", "integer string"),
        (b"S'a\n.", "quote"),
        (b"X\x01\x00\x00\x00\xff.", "decode"),
    ],
)
def test_damage_is_named(read, data, reason):
    with pytest.raises(InputError, match=r"file.pkl: expected a whole pickle.*at byte \d+") as caught:
        read(data)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_file_cut_at_any_byte_is_refused(read, protocol):
    data = pickle.dumps(METADATA, protocol)
    for length in range(len(data)):
        with pytest.raises(InputError):
            read(data[:length])
    assert read(data) == METADATA


@pytest.mark.filterwarnings("error")
def test_changed_bytes_end_in_a_value_or_an_input_error(read):
    generator = random.Random(0)
    originals = [pickle.dumps(defaultdict(set, METADATA), protocol) for protocol in PROTOCOLS]
    refused = 0
    for _ in range(2000):
        data = bytearray(generator.choice(originals))
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            exact(read(bytes(data)))
        except InputError:
            refused += 1
    assert 0 < refused < 2000


# What would take too much


def test_a_file_over_the_limit_is_refused(read):
    data = pickle.dumps(METADATA)
    assert read(data, limit=len(data)) == METADATA
    with pytest.raises(InputError, match=f"at most {len(data) - 1} bytes, got {len(data)}"):
        read(data, limit=len(data) - 1)


@pytest.mark.parametrize(
    "start",
    [b"\x8b" + struct.pack("<i", 2**31 - 1), b"X" + struct.pack("<I", 2**32 - 1), b"\x8d" + b"\xff" * 7 + b"\x7f"],
)
def test_a_size_past_the_end_is_refused_before_memory_is_taken(read, start):
    with pytest.raises(InputError, match="at byte 0"):
        read(start + b"a.")


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\xff", b"p2147483648\n"])
def test_a_huge_memo_index_is_refused(read, put):
    with pytest.raises(InputError, match="more than the file can hold"):
        read(b"N" + put + b".")


DOUBLED = b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60))  # a pair of one pair twice, 2**60 in all


def test_doubled_tuples_are_shared(read):
    value = read(DOUBLED + b".")
    for _ in range(60):
        assert value[0] is value[1]
        value = value[0]
    assert value == ()


@pytest.mark.parametrize(
    "data", [b"}" + DOUBLED + b"Ns.", b"\x8f(" + DOUBLED + b"\x90.", b"c__builtin__\nset\n]" + DOUBLED + b"a\x85R."]
)
def test_a_key_that_takes_for_ever_to_hash_is_refused(read, data, monkeypatch):
    monkeypatch.setattr(plain_pickle, "_ALLOWANCE", 2**16)
    with pytest.raises(InputError, match="for ever to hash"):
        read(data)


def test_a_list_copied_again_and_again_is_refused(read, monkeypatch):
    """Each call takes 5 bytes of the file, and as much memory as the whole list."""
    monkeypatch.setattr(plain_pickle, "_ALLOWANCE", 2**16)
    start = b"](c__builtin__\nset\nq\x00](" + b"K\x01" * 1000 + b"e\x85q\x01R"
    assert read(start + b"h\x00h\x01R" * 20 + b"e.") == [{1}] * 21
    with pytest.raises(InputError, match="for ever to hash"):
        read(start + b"h\x00h\x01R" * 100 + b"e.")


@pytest.mark.parametrize("opcode", [b"\x8f", b"(", b"\x94", b"N"])
def test_too_many_opcodes_are_refused(read, opcode, monkeypatch):
    monkeypatch.setattr(plain_pickle, "_ALLOWANCE", 2**12)
    with pytest.raises(InputError, match="more than 4,096 units of work"):
        read(b"N" + opcode * 5000)


@pytest.mark.parametrize(
    "data",
    [
        b")" + b"\x85" * 100_000 + b".",
        b"]" * 100_000 + b"a" * 99_999 + b".",
        b"}" + b")" + b"\x85" * 100_000 + b"Ns.",
        b"]q\x00h\x00a.",
    ],
)
def test_deep_nesting_and_cycles_are_refused(read, data):
    with pytest.raises(InputError, match="nested more than 100 levels deep, or within themselves"):
        read(data)


def test_a_hundred_levels_are_read(read):
    assert repr(read(b"]" * 100 + b"a" * 99 + b".")) == "[" * 100 + "]" * 100


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "absent.pkl", tmp_path):
        with pytest.raises(InputError, match="expected a pickle file at"):
            read_plain_pickle(path)


def test_a_disk_that_fails_is_named(read, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(InputError, match=r"could not read .*file.pkl: Input/output error"):
        read(b"N.")
