// Package search minimises an objective over the configurations of a space by measuring
// some of them with a given function.
//
// [Tune] follows Algorithm 1 of AutoSched (Gao et al., ICS 2024): sample, project,
// scope, reject, measure, update. The default, the incumbent and the presets
// come first, then the proposals of a [Sampler]. Every configuration is measured on the
// same futures, so that configurations are compared pair by pair, and rewards
// are ratios to the incumbent's objective.
//
// The winner is the trial with the best posterior mean, not the lowest measurement,
// which is biased.
//
// Samplers, by name in [Samplers]:
//
//   - auto: chooses one of the others, with a reason.
//   - gp: a Gaussian process over numbers, logarithms and categories. Half of each
//     batch maximises the knowledge gradient, half the expected improvement.
//   - local: local search around the best trial.
//   - sobol: scrambled Sobol points, with the direction numbers of Joe and Kuo,
//     "Constructing Sobol sequences with better two-dimensional projections",
//     SIAM J. Sci. Comput. 30 (2008).
//   - random: independent uniform points.
//   - bluefin: the two-point bandit gradient of SelfTune (Karthikeyan et al.,
//     NSDI 2023), exactly as its Python version 2 computes it.
//
// A new sampler is a file and an entry in that table. Except for a [Learner], a
// sampler is a function of the space, the history, the seed and the step, so that
// a replayed study proposes the same.
//
// Package prune rejects and narrows proposals by a causal model. This package does not
// depend on it: Options.Reject and Options.Scope are functions.
package search
