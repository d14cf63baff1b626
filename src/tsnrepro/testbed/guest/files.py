"""What a job adds to the guest's first file system."""

from tsnrepro.testbed.guest import initramfs
from tsnrepro.testbed.guest.archive import Archive
from tsnrepro.testbed.guest.programs import find
from tsnrepro.testbed.jobs import script
from tsnrepro.testbed.jobs.job import Job


def archive(job: Job) -> bytes:
    """Return the job's programs with their libraries, its inputs and its script, as an archive.

    Raises
    ------
    TestbedError
        A program that the job wants is not on this machine.
    """
    added = Archive()
    initramfs.add_programs(added, [find(name) for name in job.programs])
    for path, content in job.inputs.items():
        added.file(path, content)
    added.file("/job/script", script.text(job).encode())
    return added.to_bytes()
