"""The logger ``tsnrepro`` of Snakemake, which profiles/default asks for.

Snakemake finds plugins by the beginning of a package's name, so this one cannot lie in the other.
"""

import sys
from logging import LogRecord

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase

from tsnrepro.common.temporary import gather_temporary_folders
from tsnrepro.workflow.campaign_output import CampaignOutput


class LogHandler(LogHandlerBase):
    """Says what a campaign does in few lines; whoever asks for details gets Snakemake's own."""

    def __post_init__(self) -> None:
        """Choose between the two by the options of the call."""
        # Plugins come first, and Snakemake may be killed as soon as it has made its folders.
        gather_temporary_folders()
        asked = self.common_settings
        stream = sys.stdout if asked.stdout else sys.stderr
        self._short = CampaignOutput(stream)
        self._whole = None
        if asked.dryrun or asked.printshellcmds or asked.verbose or asked.debug_dag:
            self._whole = ColorizingTextHandler(
                nocolor=asked.nocolor,
                stream=stream,
                formatter=DefaultFormatter(asked.quiet, asked.show_failed_logs),
            )
            self._whole.addFilter(
                DefaultFilter(
                    asked.quiet,
                    asked.debug_dag,
                    asked.verbose,
                    asked.dryrun,
                    asked.printshellcmds,
                )
            )

    def emit(self, record: LogRecord) -> None:
        """Write what there is to say of an event."""
        if self._whole is not None:
            self._whole.handle(record)
            return
        try:
            self._short.tell(record)
        except Exception:
            self.handleError(record)

    @property
    def writes_to_stream(self) -> bool:
        """It takes the place of Snakemake's own output."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """The whole story goes to Snakemake's log file as ever."""
        return False

    @property
    def has_filter(self) -> bool:
        """What is left out is decided here."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Lines are made here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """The graph of rules is not used."""
        return False
