package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// addAdoption adds what a round asks of a change besides --min-ratio.
func addAdoption(cmd *cobra.Command, s *round.Settings) {
	fl := cmd.Flags()
	fl.Var(share{&s.MinGain}, "min-gain",
		"least share of the objective that a change gains: 0.002, 0.2% or off")
	fl.Var(share{&s.ChangePrice}, "change-price",
		"what every change within the last day adds to --min-gain, or off")
	fl.Var(dwell{&s.Dwell}, "dwell", fmt.Sprintf(
		"how long a configuration stays unless another gains a controllable ratio of %g, or off", round.UrgentRatio))
	fl.Var(guard{share{&s.Guard}}, "guard", "share by which a change may make each tenant's p95 queueing delay, the "+
		"average JCT of jobs below ten minutes, and the p99 JCT worse, or off")
}

const off = "off"

// share is a flag's share of a whole, negative for off.
type share struct{ to *float64 }

func (s share) Type() string { return "share" }

func (s share) String() string {
	switch {
	case s.to == nil || *s.to == 0:
		return "0"
	case *s.to < 0:
		return off
	}
	return strconv.FormatFloat(100**s.to, 'g', 6, 64) + "%"
}

func (s share) Set(text string) error {
	if text == off {
		*s.to = -1
		return nil
	}
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return errors.New("want a share from 0 to 1, such as 0.1 or 10%, or off")
	}
	if *s.to = x; x == 0 {
		*s.to = -1
	}
	return nil
}

// guard is a share above 0: 0 is that of the default.
type guard struct{ share }

func (g guard) Set(text string) error {
	if err := g.share.Set(text); err != nil || text == off || *g.to > 0 {
		return err
	}
	return errors.New("want a share above 0, such as 0.1 or 10%, or off")
}

// dwell is a flag's duration, negative for off.
type dwell struct{ to *time.Duration }

func (d dwell) Type() string { return "duration" }

func (d dwell) String() string {
	switch {
	case d.to == nil || *d.to == 0:
		return "0"
	case *d.to < 0:
		return off
	}
	return (&space.Param{Kind: space.KindDuration}).Format(space.Num(d.to.Seconds())) // 2h, as --set has it
}

func (d dwell) Set(text string) error {
	if text == off {
		*d.to = -time.Second
		return nil
	}
	x, err := time.ParseDuration(text)
	if err != nil || x < 0 {
		return errors.New("want a duration, such as 2h, or off")
	}
	if *d.to = x; x == 0 {
		*d.to = -time.Second
	}
	return nil
}
