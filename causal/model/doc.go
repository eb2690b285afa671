// Package model predicts objectives from configurations and the workload they
// meet, along a causal graph, and says why: effects, paths, what-ifs,
// counterfactuals and comparisons.
//
// Every metric and objective is a regression on its parents in the graph
// (linear, quadratic or boosted trees, by cross-validation). Predicting with all
// of them in causal order is the structural head. The direct head regresses each
// objective on configuration and context alone. As configurations are chosen from
// outside, the direct head is right whatever is hidden; the structural head
// varies less and explains. Predictions blend the two by cross-validation, and a
// bootstrap gives their spread.
//
// Rankings of parameters by average causal effect use the direct head, paths the
// structural one: a hidden load biases the structural effects, and a missed edge
// makes one zero.
//
// Sources: AutoSched (Gao et al., ICS 2024) sections 3.3 and 4.3; Unicorn (Iqbal
// et al., EuroSys 2022) for effects of paths; Pearl, "Causality" (2009), for do()
// and counterfactuals.
package model
