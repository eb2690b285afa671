// Package causal learns from a table of measured configurations which settings
// change which metrics, and which metrics change which objectives.
//
// A row of the table is one measured run: what was set (config), under which
// workload (context), what the system did (metric) and how good that was
// (objective). [Learn] finds a partial ancestral graph with FCI (Spirtes et al.;
// orientation rules of Zhang, "On the completeness of orientation rules for
// causal discovery in the presence of latent confounders and selection bias",
// 2008): a graph whose marks hold in every causal model, with hidden common
// causes or without, that fits the data and the knowledge given. [Resolve] turns
// it into a directed graph that can be computed with, and says what it had to
// assume for that.
//
// The package knows nothing of schedulers: variables are columns, referred to by
// index, in the order of the table.
package causal
