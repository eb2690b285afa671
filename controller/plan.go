package controller

import "context"

// plan is what a call would change that checks only.
type plan struct{ after map[*schedulerState]*snapshot }

type planKey struct{}

// ValidateOnly is a context of a call that checks only: its changes are made as far as to be stored, and what is
// answered is what would be.
func ValidateOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, planKey{}, &plan{after: map[*schedulerState]*snapshot{}})
}

// ValidatesOnly reports whether a call checks only.
func ValidatesOnly(ctx context.Context) bool { return planOf(ctx) != nil }

func planOf(ctx context.Context) *plan {
	p, _ := ctx.Value(planKey{}).(*plan)
	return p
}

// view is a scheduler as it is, or as it would be after what the call has planned.
func (m *schedulerState) view(ctx context.Context) *snapshot {
	if p := planOf(ctx); p != nil && p.after[m] != nil {
		return p.after[m]
	}
	return m.snapshot.Load()
}
