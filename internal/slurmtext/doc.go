// Package slurmtext reads the texts that Slurm's programs print: trackable resources (TRES), generic resources (Gres),
// host lists, ids of jobs and array tasks, time spans, states, and the tables of sacct, sacctmgr and scontrol. It is
// the only reader of them, so that a trace, a live cluster and the description of a site mean the same by the same
// text.
//
// Each function names the source file of Slurm that writes the text. A text that Slurm does not write is an error,
// never a guess. Errors of values complete a sentence whose subject is the column, such as "has a negative number of
// GPUs".
package slurmtext
