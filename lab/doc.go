// Package lab holds experiments on rounds and their parts: searches compared round
// by round (Compare), the trace aggregator (StudyAggregate), futures compared with the
// true one (DrawFutures), tuning methods over windows, schedulers and seeds (Matrix), the
// choice of presets by their regret (ChoosePortfolio), studies with and without the causal
// model (CompareStudies), and training sets for a causal
// model with a test of its predictions (Train, Training.Foresee). The service and evaluations do not import it.
package lab
