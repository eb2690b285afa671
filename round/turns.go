package round

import "context"

type turnsKey struct{}

// WithTurns returns a context in which every simulation of a round is run by run, which may make it
// wait while others have the processors. Decisions do not depend on it.
func WithTurns(ctx context.Context, run func(work func() error) error) context.Context {
	return context.WithValue(ctx, turnsKey{}, run)
}

// InTurn runs work as the context asks for.
func InTurn(ctx context.Context, work func() error) error {
	if run, ok := ctx.Value(turnsKey{}).(func(func() error) error); ok {
		return run(work)
	}
	return work()
}
