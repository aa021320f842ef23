"""The spool: crashes at each step, and files that aren't what they should be."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Gateway, Step
from hypothesis import given
from hypothesis import strategies as st

from receipts_client import Client, Rejection, Use, delivery
from receipts_client.spool import Journal, Spool, _frame, _frames, new_stem
from receipts_client.testing import new_signer
from receipts_client.use import new_id

Make = Callable[..., Client]
AWAY = "http://127.0.0.1:1"


def use(number: int = 0) -> Use:
    return Use(f"https://news.example/{number}", "inference", "an answer", content="a")


def leave(client: Client) -> None:
    """End a client as a kill does, but for the locks that the system would free."""
    assert client._delivery is not None
    delivery = client._delivery
    with delivery._progress:
        delivery._is_closed = True
        delivery._work_ready.notify_all()
        delivery._is_dirty.set()
    for thread in delivery._threads:
        thread.join()
    if delivery._spool:
        delivery._spool.close()


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


def test_journal_survives_and_torn_end_is_dropped(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60)
    recorded = [client.record(use(number)) for number in range(3)]
    leave(client)
    [journal] = files(tmp_path, ".journal")
    data = journal.read_bytes()
    # Zeros are what some file systems leave behind a power failure.
    for torn, count in [(data[:-1], 2), (data + data[:11], 3), (data + bytes(64), 3)]:
        journal.write_bytes(torn)
        journal.parent.mkdir(exist_ok=True)
        before = gateway.ids()
        client = new_client(spool_dir=tmp_path)
        assert client.flush(30) and client.close() and not gateway.problems
        assert gateway.ids() - before <= set(recorded)
        assert gateway.acknowledged()[recorded[0]] and len(gateway.arrivals[-1].receipts) == count


@given(
    st.lists(st.text(), min_size=1, max_size=6),
    st.integers(min_value=0),
    st.integers(min_value=0, max_value=7),
)
def test_changed_bit_costs_one_frame(texts: list[str], position: int, bit: int) -> None:
    frames = [json.dumps({"a": text, "b": {"c": "{"}}).encode() for text in texts]
    data = bytearray(b"".join(map(_frame, frames)))
    position %= len(data)
    data[position] ^= 1 << bit
    read, damaged = _frames(bytes(data))
    hit, end = -1, 0
    while end <= position:
        hit += 1
        end += 8 + len(frames[hit])
    assert read == frames[:hit] + frames[hit + 1 :]
    assert len(damaged) == 1 and len(damaged[0]) == 8 + len(frames[hit])


def test_damage_is_reported_and_the_file_is_kept(
    new_client: Make, gateway: Gateway, tmp_path: Path, rejected: list[Rejection]
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60)
    recorded = [client.record(use(number)) for number in range(5)]
    leave(client)
    [journal] = files(tmp_path, ".journal")
    data = bytearray(journal.read_bytes())
    data[100] ^= 1
    # Zeros, as of a power failure, have no receipt's ID.
    data += bytes(64)
    journal.write_bytes(data)
    numbers: dict[str, float] = {}
    client = new_client(spool_dir=tmp_path, on_metric=lambda name, _: numbers.update({name: 1}))
    assert client.flush(30) and client.close()
    assert gateway.ids() == set(recorded[1:])
    assert [(one.receipt_id, one.code) for one in rejected] == [
        (recorded[0], "damaged"),
        ("", "damaged"),
    ]
    assert numbers["damaged"] and "rejected" not in numbers
    [retained] = (tmp_path / "damaged").iterdir()
    assert retained.read_bytes() == data and str(retained) in rejected[0].detail
    assert not files(tmp_path / "0", ".journal")


def test_crash_between_batch_and_journal_makes_one_batch(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60)
    recorded = client.record(use())
    [journal] = files(tmp_path, ".journal")
    data = journal.read_bytes()
    client.flush(0.2)
    leave(client)
    [batch] = files(tmp_path, ".batch")
    assert batch.stem == journal.stem and not journal.exists()
    journal.write_bytes(data)
    client = new_client(spool_dir=tmp_path)
    assert client.flush(30) and client.close()
    assert gateway.acknowledged() == {recorded: 1} and len(gateway.arrivals) == 1
    assert not files(tmp_path, ".journal") and not files(tmp_path, ".batch")


def test_leftovers_of_another_key_are_delivered(
    new_client: Make, gateway: Gateway, tmp_path: Path, rejected: list[Rejection]
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60)
    recorded = {client.record(use(number)) for number in range(3)}
    client.flush(0.2)
    recorded.add(client.record(use(3)))
    leave(client)
    assert len(files(tmp_path, ".batch")) == len(files(tmp_path, ".journal")) == 1
    # The sealed batch is taken apart by a client that doesn't have its key.
    gateway.steps = [Step(400, faults=[(0, "invalid_url", "/content/url")])]
    client = new_client(spool_dir=tmp_path, requests_in_flight_max=1)
    assert client.flush(30) and not gateway.problems
    assert len(rejected) == 1
    assert gateway.ids() == recorded - {rejected[0].receipt_id}


def test_expired_batch_is_reported_and_kept(
    new_client: Make, gateway: Gateway, tmp_path: Path, rejected: list[Rejection]
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path)
    recorded = {client.record(use(number)) for number in range(3)}
    client.flush(0.2)
    leave(client)
    [batch] = files(tmp_path, ".batch")
    past_ms = time.time_ns() // 1_000_000 - 73 * 3_600_000
    batch.rename(batch.with_name(f"{past_ms}-{batch.name.partition('-')[2]}"))
    gateway.default = Step(503)
    client = new_client(spool_dir=tmp_path)
    assert client.flush(30) and len(gateway.arrivals) == 1
    assert {one.receipt_id for one in rejected} == recorded
    assert {one.code for one in rejected} == {"expired"}
    assert json.loads(rejected[0].receipt)["receiptId"] == rejected[0].receipt_id
    assert len(files(tmp_path / "rejected", ".batch")) == 1


def test_clock_that_is_ahead_expires_nothing_that_can_be_delivered(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path)
    recorded = client.record(use())
    client.flush(0.2)
    leave(client)
    [batch] = files(tmp_path, ".batch")
    past_ms = time.time_ns() // 1_000_000 - 73 * 3_600_000
    batch.rename(batch.with_name(f"{past_ms}-{batch.name.partition('-')[2]}"))
    client = new_client(spool_dir=tmp_path)
    assert client.flush(30) and gateway.ids() == {recorded}


def test_rejected_batch_is_sent_again_as_the_readme_says(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_ADOPT_INTERVAL_S", 0.1)
    gateway.steps = [Step(403, code="client_key_unknown")]
    client = new_client(spool_dir=tmp_path / "spool")
    recorded = {client.record(use(number)) for number in range(3)}
    assert client.flush(30) and not gateway.ids()
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    command = "mkdir -p spool/1000 && mv spool/rejected/*.batch spool/1000/"
    assert command in readme
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    # A client that runs finds it.
    deadline = time.monotonic() + 30
    while gateway.ids() != recorded and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gateway.ids() == recorded and not gateway.problems


def test_running_client_adopts_what_others_leave(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_ADOPT_INTERVAL_S", 0.1)
    other = new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60)
    running = new_client(spool_dir=tmp_path)
    recorded = {running.record(use(0)), other.record(use(1))}
    leave(other)
    deadline = time.monotonic() + 30
    while gateway.ids() != recorded and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gateway.ids() == recorded and set(gateway.acknowledged().values()) == {1}


def test_refused_batches_on_disk_are_bounded(
    new_client: Make, gateway: Gateway, tmp_path: Path, rejected: list[Rejection]
) -> None:
    gateway.default = Step(403, code="client_key_unknown")
    client = new_client(spool_dir=tmp_path, batch_receipts_max=1, spool_retained_bytes_max=3_000)
    for number in range(8):
        client.record(use(number))
    assert client.flush(30) and len(rejected) == 8
    retained = files(tmp_path / "rejected", ".batch")
    assert retained and sum(file.stat().st_size for file in retained) <= 3_000


def test_adopted_receipts_count_for_the_queue(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path, batch_receipts_max=4, batch_delay_s=60)
    for number in range(6):
        client.record(use(number))
    leave(client)
    client = new_client(url=AWAY, spool_dir=tmp_path)
    state = client.state()
    assert state["queued"] + state["in_flight"] == 6


def test_ended_process_leaves_its_slot_to_the_next(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    first, second = (new_client(url=AWAY, spool_dir=tmp_path, batch_delay_s=60) for _ in range(2))
    recorded = {first.record(use(0)), second.record(use(1))}
    assert {file.parent.name for file in files(tmp_path, ".journal")} == {"0", "1"}
    leave(second)
    third = new_client(spool_dir=tmp_path)
    assert third.flush(30) and len(gateway.ids()) == 1
    leave(first)
    fourth = new_client(spool_dir=tmp_path)
    assert fourth.flush(30) and gateway.ids() == recorded


def test_foreign_files_are_left_alone(new_client: Make, tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    for name in ["notes.batch", "1.journal", "a.part", "readme"]:
        (tmp_path / "0" / name).write_text("x")
    (tmp_path / "notes").write_text("x")
    client = new_client(spool_dir=tmp_path)
    assert client.flush(5)
    assert (tmp_path / "0" / "notes.batch").exists() and (tmp_path / "notes").exists()


def test_removed_batch_doesnt_stop_the_others(
    new_client: Make, gateway: Gateway, tmp_path: Path
) -> None:
    # A long pause, so that no request is in flight while the file is removed.
    gateway.steps = [Step(503, retry_after_s=3)]
    client = new_client(spool_dir=tmp_path, batch_receipts_max=1, requests_in_flight_max=1)
    for number in range(3):
        client.record(use(number))
    deadline = time.monotonic() + 30
    while client.state()["spooled_batches"] < 3 or not client.state()["retries"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    files(tmp_path, ".batch")[0].unlink()
    assert client.flush(30) and len(gateway.ids()) == 3


def test_receipt_that_isnt_stored_isnt_recorded(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = new_client(spool_dir=tmp_path, batch_delay_s=60)
    recorded = {client.record(use(0))}

    class Full:
        """A disk on which a frame fits in part."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            return int(self.file.write(data[:5]))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    assert client._delivery is not None and client._delivery._open is not None
    journal = client._delivery._open.journal
    assert journal is not None
    journal._file = Full(journal._file)  # type: ignore[assignment]
    with pytest.raises(OSError) as error:
        client.record(use(1))
    assert error.value.errno == errno.ENOSPC
    recorded.add(client.record(use(2)))
    assert client.flush(30) and gateway.ids() == recorded and not gateway.problems
    assert client._delivery._queued_bytes == 0


def test_disk_that_fails_for_a_while_loses_nothing(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, failures = Spool.store, [OSError(errno.EIO, "store"), OSError(errno.ENOSPC, "store")]

    def fail(self: Spool, stem: str, body: bytes) -> Path:
        if failures:
            raise failures.pop()
        return store(self, stem, body)

    monkeypatch.setattr(Spool, "store", fail)
    client = new_client(spool_dir=tmp_path)
    recorded = {client.record(use(number)) for number in range(3)}
    assert client.flush(30) and gateway.ids() == recorded


def test_disk_that_stays_full_blocks_nothing(
    new_client: Make,
    gateway: Gateway,
    tmp_path: Path,
    rejected: list[Rejection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: Spool, stem: str, body: bytes) -> Path:
        raise OSError(errno.ENOSPC, "store")

    monkeypatch.setattr(Spool, "store", fail)
    gateway.steps = [Step(400, faults=[(1, "invalid_url", "/content/url")]), Step(413), Step(503)]
    client = new_client(spool_dir=tmp_path, batch_delay_s=60, requests_in_flight_max=1)
    recorded = [client.record(use(number)) for number in range(7)]
    assert client.flush(30)
    assert gateway.ids() == {*recorded[:1], *recorded[2:]} and not gateway.problems
    assert [one.receipt_id for one in rejected] == [recorded[1]]
    assert not files(tmp_path, ".journal") and not files(tmp_path, ".part")
    # What isn't acknowledged stays in its journal.
    gateway.default = Step(503)
    recorded = [client.record(use(number)) for number in range(3)]
    assert not client.flush(0.3) and not client.close(0)
    assert len(files(tmp_path, ".journal")) == 1 and len(rejected) == 1
    gateway.default = Step()
    monkeypatch.undo()
    assert new_client(spool_dir=tmp_path).flush(30) and set(recorded) <= gateway.ids()


def test_part_that_cant_be_stored_keeps_the_batch_that_it_is_of(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, is_full = Spool.store, False

    def fail(self: Spool, stem: str, body: bytes) -> Path:
        if is_full:
            raise OSError(errno.ENOSPC, "store")
        return store(self, stem, body)

    monkeypatch.setattr(Spool, "store", fail)
    gateway.steps = [Step(503, retry_after_s=1), Step(413)]
    gateway.default = Step(503)
    client = new_client(spool_dir=tmp_path, requests_in_flight_max=1)
    recorded = {client.record(use(number)) for number in range(4)}
    while not files(tmp_path, ".batch"):
        time.sleep(0.01)
    is_full = True
    while len(gateway.arrivals) < 3:
        time.sleep(0.01)
    leave(client)
    assert len(files(tmp_path, ".batch")) == 1
    gateway.default = Step()
    assert new_client(spool_dir=tmp_path).flush(30) and gateway.ids() == recorded
    assert not files(tmp_path, ".batch")


def test_close_reports_what_a_removed_spool_had(
    new_client: Make, tmp_path: Path, rejected: list[Rejection]
) -> None:
    client = new_client(url=AWAY, spool_dir=tmp_path / "spool", batch_receipts_max=2)
    recorded = {client.record(use(number)) for number in range(4)}
    while client.state()["spooled_batches"] + client.state()["in_flight"] / 2 < 2:
        time.sleep(0.01)
    shutil.rmtree(tmp_path / "spool")
    assert not client.close(0)
    assert {one.receipt_id for one in rejected} == recorded
    assert {one.code for one in rejected} == {"undelivered"}


def test_failed_sync_writes_the_receipts_again(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Journal) -> None:
        raise OSError(errno.EIO, "fdatasync")

    monkeypatch.setattr(Journal, "sync", fail)
    client = new_client(spool_dir=tmp_path, batch_delay_s=60)
    recorded = {client.record(use())}
    deadline = time.monotonic() + 30
    while not gateway.ids() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gateway.ids() == recorded


def test_batch_that_cant_be_deleted_is_acknowledged(
    new_client: Make, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def fail(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".batch":
            raise OSError(errno.EROFS, "unlink")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", fail)
    client = new_client(spool_dir=tmp_path)
    client.record(use())
    assert client.flush(30) and len(gateway.arrivals) == 1


def test_files_are_the_owners_only(new_client: Make, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    client = new_client(spool_dir=folder)
    client.record(use())
    assert {os.stat(path).st_mode & 0o777 for path in (folder, folder / "0")} == {0o700}


def test_stem_of_an_id() -> None:
    identifier = new_id()
    assert new_stem(identifier, 5) == f"0000000000005-{identifier}"
    assert new_signer().algorithm == "Ed25519"
