package operate

import (
	"fmt"
	"strings"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

// wavesText describes the waves of a rollout.
func wavesText(r *pb.RolloutPolicy) string {
	var parts []string
	if r.GetCanary() {
		parts = append(parts, "1 instance")
	}
	if share := r.GetWaveShare(); share > 0 {
		parts = append(parts, fmt.Sprintf("%g%% of them", 100*share))
	}
	text := strings.Join(append(parts, "all"), ", ")
	if soak := r.GetSoakTime().AsDuration(); soak > 0 {
		text += fmt.Sprintf("; %s between", units.Duration(soak.Seconds()))
	}
	return text
}

// limitsText describes the limits on changes by tuning.
func limitsText(r *pb.RolloutPolicy) string {
	var parts []string
	if n := r.GetMaxChangesPerDay(); n > 0 {
		parts = append(parts, cli.Plural(int(n), "change")+" in 24 h")
	}
	if d := r.GetFlapWindow().AsDuration(); d > 0 {
		parts = append(parts, fmt.Sprintf("one return to earlier values in %s", units.Duration(d.Seconds())))
	}
	if d := r.GetRollbackHold().AsDuration(); d > 0 {
		parts = append(parts, fmt.Sprintf("none for %s after a rollback", units.Duration(d.Seconds())))
	}
	for _, q := range r.GetQuietHours() {
		zone := q.GetTimeZone()
		if zone == "" {
			zone = "UTC"
		}
		parts = append(parts, fmt.Sprintf("none from %s to %s %s", q.GetStart(), q.GetEnd(), zone))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
