// Package durations predicts how long jobs run: the Local Predictor of AutoSched
// (Gao et al., ICS 2024, section 3.2.2 and Table 2). It classifies a job's whole
// duration into six classes from the knowledge at an instant, and then draws a
// duration from history, given the class and how long the job has run already.
//
// A Tracker passes over a history once and gives rows of Features: the paper's (the
// latest arrivals and completions, the job itself), and additional ones: the
// job's batch, its neighbours in submission with those that still run counted as
// censored, and the past of its tenant, width, key and user. Model is one that was learnt and scored,
// with its training window, in a file; Outlook answers for a running system.
//
// A duration is run time without restarts, of a job that has ended, however it
// ended. Nothing here reads workload.Job's Duration: the past is a Record.
// Times are since the workload's zero; features are ln(1 + seconds) where they are
// lengths of time. Nothing is concurrent but the training of trees.
package durations
