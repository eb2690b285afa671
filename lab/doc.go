// Package lab holds experiments on rounds and their parts: searches compared round
// by round (Compare), the trace aggregator (StudyAggregate), futures beside the true
// one (DrawFutures), and training sets for a causal model with a test of what it
// predicts (Train, Training.Foresee). No product path imports it.
package lab
