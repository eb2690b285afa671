// Package model predicts objectives from configurations and their workload along a
// causal graph, and explains the predictions: effects, paths, what-ifs,
// counterfactuals and comparisons.
//
// Every metric and objective is a regression on its parents in the graph (linear,
// quadratic or boosted trees, chosen by cross-validation). The structural head
// evaluates all of them in causal order. The direct head regresses each objective on
// configuration and context alone. As configurations are set from outside, the
// direct head is unbiased by hidden variables; the structural head has less variance
// and explains. Predictions blend the two with a weight chosen by cross-validation,
// and a bootstrap gives their spread.
//
// Parameters are ranked by average causal effect on the direct head, and paths by
// the structural head: a hidden variable biases structural effects, and a missing
// edge makes them zero.
//
// Sources: AutoSched (Gao et al., ICS 2024) sections 3.3 and 4.3; Unicorn (Iqbal et
// al., EuroSys 2022) for path effects; Pearl, "Causality" (2009), for do() and
// counterfactuals.
package model
