// Package causal learns from a table of measured configurations which settings
// change which metrics, and which metrics change which objectives.
//
// A row of the table is one measured run: its settings (config), its workload
// (context), the system's behaviour (metric) and its quality (objective). [Learn]
// finds a partial ancestral graph with FCI (Spirtes et al.; orientation rules of
// Zhang, "On the completeness of orientation rules for causal discovery in the
// presence of latent confounders and selection bias", 2008): its marks hold in every
// causal model, with or without hidden common causes, that fits the data and the
// given knowledge. [Resolve] turns it into a directed graph for computation and
// lists the assumptions made.
//
// The package does not depend on schedulers: variables are columns, referred to by
// index, in the order of the table.
package causal
