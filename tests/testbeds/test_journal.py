"""The saved state of a testbed's hosts, when something else is in its place."""

import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.testbeds.hosts.rollback import Journal


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "no valid settings, token, state"),
        ('{"settings": {}, "token": 7, "state": {}}', "no valid token"),
        ('{"settings": {}, "token": "", "state": [1]}', "no valid state"),
        ("[]", "not a JSON object"),
        ("{", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_saved_state_is_an_error(tmp_path, content, says):
    journal = Journal("rack", tmp_path)
    if content is None:
        journal.path.mkdir()
    else:
        journal.path.write_text(content)
    with pytest.raises(RecordError, match=says) as error:
        journal.read()
    assert error.value.where == str(journal.path)
    assert "remove this file" in error.value.remedy


def test_without_a_file_there_is_nothing_to_restore(tmp_path):
    assert Journal("rack", tmp_path).read() is None
