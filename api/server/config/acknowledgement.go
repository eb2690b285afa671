// Package config serves configurations: current revisions, acknowledgements, and changes that
// operators make to revisions.
package config

import (
	"fmt"
	"maps"
	"slices"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// maxReason bounds why a configuration is refused, in bytes.
const maxReason = 1024

// instanceID checks the id of an instance.
func instanceID(field, id string) (string, error) {
	if len(id) > convert.MaxText {
		return "", convert.Invalid(field, "is longer than %d bytes", convert.MaxText)
	}
	return id, nil
}

// AckFromProto checks an acknowledgement of a configuration and converts it.
func AckFromProto(a *pb.Acknowledgement, sp *space.Space, sent space.Config) (rollout.Ack, error) {
	const at = "acknowledgement."
	var v convert.Violations
	out := rollout.Ack{State: render.AckStates[a.GetState()], Error: a.GetError(), Instance: a.GetInstanceId()}
	if out.State == "" {
		v.Add(at+"state", "is required: APPLIED, PARTIALLY_APPLIED, REJECTED or FAILED")
	}
	if len(out.Error) > maxReason {
		v.Add(at+"error", "is longer than %d bytes", maxReason)
	}
	if len(out.Instance) > convert.MaxText {
		v.Add(at+"instance_id", "is longer than %d bytes", convert.MaxText)
	}
	if t := a.GetAppliedTime(); t != nil {
		if _, ok := convert.SinceEpoch(t); !ok {
			v.Add(at+"applied_time", "is not between the years %d and %d", convert.FirstYear, convert.LastYear)
		}
		out.Applied = t.AsTime()
	}
	switch n := len(a.GetEffectiveParameters()); {
	case n == 0 && out.State == rollout.AckPartial:
		v.Add(at+"effective_parameters", "is required if PARTIALLY_APPLIED: the values in force that differ")
	case n > 0 && out.State != rollout.AckPartial && out.State != rollout.AckApplied:
		v.Add(at+"effective_parameters", "counts only if APPLIED or PARTIALLY_APPLIED")
	}
	for _, id := range slices.Sorted(maps.Keys(a.GetEffectiveParameters())) {
		value := a.GetEffectiveParameters()[id]
		field := fmt.Sprintf("%seffective_parameters[%q]", at, id)
		p, ok := sp.Param(id)
		x, why := convert.ValueFromProto(value)
		switch {
		case !ok:
			v.Add(field, "there is no such parameter")
		case why != "":
			v.Add(field, "%s", why)
		case !convert.SameShape(&p, value):
			v.Add(field, "%s is not a value of it: want %s", x, p.Range())
		case x.Equal(sent.Get(id)):
			// As sent: nothing to remember.
		case out.State == rollout.AckApplied:
			v.Add(field, "%s is not what was sent, %s: want state PARTIALLY_APPLIED", x, sent.Get(id))
		default:
			if out.Effective == nil {
				out.Effective = map[string]space.Value{}
			}
			out.Effective[id] = x
		}
	}
	return out, v.Err()
}
