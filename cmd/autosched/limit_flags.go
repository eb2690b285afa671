package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/rollout"
)

// addLimits adds what bounds the changes that tuning makes by itself, but for operators'
// rollbacks, which an evaluation has none of.
func addLimits(cmd *cobra.Command, l *rollout.Limits) {
	fl := cmd.Flags()
	fl.Var(changesPerDay{&l.ChangesPerDay}, "max-changes", "changes by tuning in 24 hours at most, or off")
	fl.Var(limitSpan{&l.FlapWindow}, "flap-window",
		"time within which tuning returns to values that it left once at most, or off")
	fl.Var(quietHours{&l.QuietHours}, "quiet-hours", "hours of the day in which tuning changes nothing, such as "+
		"'22:00-06:00 Europe/Berlin' (UTC if no time zone is named), repeatable, or off")
}

type changesPerDay struct{ to *int }

func (c changesPerDay) Type() string { return "int" }

func (c changesPerDay) String() string {
	if c.to == nil {
		return "0"
	}
	return strconv.Itoa(*c.to)
}

func (c changesPerDay) Set(text string) (err error) {
	if text == off {
		text = "0"
	}
	if *c.to, err = strconv.Atoi(text); err != nil || *c.to < 0 || *c.to > 1000 {
		return errors.New("want a number from 0 to 1000, or off")
	}
	return nil
}

// limitSpan is a flag's duration, 0 for off.
type limitSpan struct{ to *time.Duration }

func (s limitSpan) Type() string { return "duration" }

func (s limitSpan) String() string { return dwell(s).String() }

func (s limitSpan) Set(text string) error {
	if text == off {
		text = "0"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 7*24*time.Hour {
		return errors.New("want a duration of at most 168h, such as 24h, or off")
	}
	*s.to = d
	return nil
}

type quietHours struct{ to *[]rollout.QuietHours }

func (q quietHours) Type() string { return "hours" }

func (q quietHours) String() string {
	if q.to == nil || len(*q.to) == 0 {
		return ""
	}
	return fmt.Sprint(*q.to)
}

func (q quietHours) Set(text string) error {
	if text == off {
		*q.to = nil
		return nil
	}
	hours, zone, _ := strings.Cut(text, " ")
	start, end, ok := strings.Cut(hours, "-")
	if !ok {
		return errors.New("want START-END and a time zone, such as '22:00-06:00 Europe/Berlin'")
	}
	one, err := rollout.ParseQuietHours(start, end, strings.TrimSpace(zone))
	if err != nil {
		return err
	}
	*q.to = append(*q.to, one)
	return nil
}

// wavesText says how what a round found reaches the instances.
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

// limitsText says what bounds the changes by tuning.
func limitsText(r *pb.RolloutPolicy) string {
	var parts []string
	if n := r.GetMaxChangesPerDay(); n > 0 {
		parts = append(parts, plural(int(n), "change")+" in 24 h")
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
