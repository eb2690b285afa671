package replay

import (
	"context"
	"errors"

	"github.com/autosched/autosched/round"
)

// SettingsChange is a change of a site's settings: the file that makes it, and which jobs wait longer by it.
type SettingsChange struct {
	// From and To bound the window on which the waits are simulated.
	From  string        `json:"from"`
	To    string        `json:"to"`
	Waits []round.Group `json:"waits"`
	// Text is the file of settings, Patch its difference to the one in force, Commands the commands that put it there.
	Text     string   `json:"text"`
	Patch    string   `json:"patch"`
	Commands []string `json:"commands"`
	// QOS are the additional commands of sacctmgr, where priorities of QOS change.
	QOS []string `json:"qos,omitempty"`
}

// CompareWaits simulates the jobs of a window under each of two configurations, held, and compares their waits by
// groups (round.Groups).
func CompareWaits(ctx context.Context, o CompareOptions) ([]round.Group, error) {
	if len(o.Rows) != 2 || len(o.Windows) != 1 {
		return nil, errors.New("compare waits: want one window and a configuration before and after")
	}
	r, err := Compare(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &r.Windows[0]
	return round.Groups(Changes(w.Jobs, w.Results[0].Rows, w.Results[1].Rows)), nil
}
