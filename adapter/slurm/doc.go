// Package slurm tunes a Slurm cluster, beside its slurmctld, as a client of the public API. It reads events of jobs and
// nodes from Slurm's accounting, and puts configurations in force through one file that slurm.conf includes: checked,
// staged, replaced by rename, reconfigured, watched, read back, and taken back where anything is wrong. It does nothing
// to jobs, and nothing of Slurm depends on it.
package slurm
