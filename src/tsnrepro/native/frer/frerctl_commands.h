/* SPDX-License-Identifier: MIT
 *
 * The commands of frerctl; argv[0] is the command's port, or the command itself where it has none.
 */
#ifndef TSNREPRO_FRERCTL_COMMANDS_H
#define TSNREPRO_FRERCTL_COMMANDS_H

/* frerctl_attach.c */
void command_switch(int argc, char **argv);
void command_station(int argc, char **argv);
void command_listener(int argc, char **argv);

/* frerctl_change.c */
void command_set(int argc, char **argv);
void command_streams(int argc, char **argv);
void command_reset(int argc, char **argv);
void command_restart(int argc, char **argv);
void command_fault(int argc, char **argv);
void command_generator(int argc, char **argv);

/* frerctl_counters.c, frerctl_drops.c, frerctl_latent.c */
void command_counters(int argc, char **argv);
void command_drops(int argc, char **argv);
void command_latent(int argc, char **argv);

#endif
