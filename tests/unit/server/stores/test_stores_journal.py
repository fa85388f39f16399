from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.logs import LogName
from drumbeat.server.home_folder.journal import RECORD_SIZE, JournalEntry, read_pieces

numbers = st.integers(0, 2**32 - 1)
ranks = st.integers(-1, 2**31 - 1)
names = st.builds(LogName, numbers, numbers, numbers, ranks)
logs = st.tuples(names, st.integers(0, 2**64 - 1), numbers, st.floats(0, 4e9))


def journal(rows):
    pieces = [JournalEntry(n, *row) for n, row in enumerate(rows, start=1)]
    return pieces, b"".join(piece.packed() for piece in pieces)


@given(st.lists(logs, max_size=20), st.integers(0, 25))
def test_pieces_come_back_from_any_position(rows, after):
    pieces, data = journal(rows)
    assert list(read_pieces(BytesIO(data), after)) == pieces[after:]


@given(st.lists(logs, min_size=1, max_size=10), st.integers(1, RECORD_SIZE), st.binary(max_size=RECORD_SIZE - 1))
def test_a_torn_end_is_no_piece(rows, cut, rubbish):
    pieces, data = journal(rows)
    assert list(read_pieces(BytesIO(data[:-cut]))) == pieces[:-1]
    assert list(read_pieces(BytesIO(data + rubbish))) == pieces
    assert list(read_pieces(BytesIO(data + b"\0" * 3 * RECORD_SIZE))) == pieces


def test_thousands_of_records_are_read_in_blocks():
    pieces, data = journal([(LogName(1, 1, 0, n % 4), n, 1, 0.0) for n in range(5000)])
    assert list(read_pieces(BytesIO(data))) == pieces
    assert next(read_pieces(BytesIO(data), 4999)) == pieces[-1]
