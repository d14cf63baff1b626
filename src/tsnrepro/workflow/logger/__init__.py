"""Snakemake's logger ``tsnrepro``, which profiles/default selects.

Snakemake finds plugins by the prefix of a package's name: a link beside this package has that name.
"""

import sys
from logging import LogRecord

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase

from tsnrepro.common.temporary import remove_temporary_folders
from tsnrepro.workflow.campaign_output import CampaignOutput


class LogHandler(LogHandlerBase):
    """Prints campaign progress in few lines; with options for details, Snakemake's own output."""

    def __post_init__(self) -> None:
        """Choose between the two by the command line."""
        # Snakemake loads plugins before it creates its temporary folders.
        remove_temporary_folders()
        settings = self.common_settings
        stream = sys.stdout if settings.stdout else sys.stderr
        self._campaign = CampaignOutput(stream)
        self._details = None
        if settings.dryrun or settings.printshellcmds or settings.verbose or settings.debug_dag:
            self._details = ColorizingTextHandler(
                nocolor=settings.nocolor,
                stream=stream,
                formatter=DefaultFormatter(settings.quiet, settings.show_failed_logs),
            )
            self._details.addFilter(
                DefaultFilter(
                    settings.quiet,
                    settings.debug_dag,
                    settings.verbose,
                    settings.dryrun,
                    settings.printshellcmds,
                )
            )

    def emit(self, record: LogRecord) -> None:
        """Print an event."""
        if self._details is not None:
            self._details.handle(record)
            return
        try:
            self._campaign.handle_event(record)
        except Exception:
            self.handleError(record)

    @property
    def writes_to_stream(self) -> bool:
        """Replaces Snakemake's own output."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Leaves Snakemake's log file as it is."""
        return False

    @property
    def has_filter(self) -> bool:
        """Selects events itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Formats events itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Does not use the graph of rules."""
        return False
