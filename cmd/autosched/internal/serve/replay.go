package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
)

func newReplayCmd() *cobra.Command {
	var dir string
	var workers int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay SCHEDULER ROUND --dir DIR",
		Short: "Decide a stored round again and compare it bit for bit",
		Long: `Replay reads the directory of a stopped service, or of a backup that 'autosched admin restore'
unpacked, and changes nothing in it. It makes the input of a round again from the events
up to it, compares its SHA-256 with that of the round, decides, and compares the decision,
each candidate and its objective in each future. It ends with an error that names the first
difference, such as events that were dropped since or another version of the program.`,
		Example: `  autosched admin backup --out backup.tar.zst
  autosched admin restore --backup backup.tar.zst --dir copy
  autosched admin replay tiresias 17 --dir copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return cli.Usage(errors.New("want a scheduler and the number of a round; " +
					"'autosched scheduler rounds list SCHEDULER' shows them"))
			case dir == "":
				return cli.Usage(errors.New("--dir is missing: name the directory of the service's data"))
			case workers < 0:
				return cli.Usage(fmt.Errorf("--workers: %d is negative", workers))
			}
			sequence, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || sequence < 1 {
				return cli.Usage(fmt.Errorf("%q is not the number of a round, from 1", args[1]))
			}
			id := strings.TrimPrefix(args[0], "schedulers/")
			again, err := replayRound(cmd.Context(), dir, id, sequence, workers)
			if err != nil {
				return err
			}
			err = cli.Show(cmd.OutOrStdout(), asJSON, "replay/v1", again, func(w io.Writer) error {
				if again.Difference != "" {
					return nil
				}
				candidates := 0
				if again.Decision != nil {
					candidates = len(again.Decision.Candidates)
				}
				_, err := fmt.Fprintf(w, "round %d of %s is the same again: %s, %s\n", sequence, id,
					units.Plural(int(again.Events), "event"), units.Plural(candidates, "candidate"))
				return err
			})
			if err == nil && again.Difference != "" {
				err = fmt.Errorf("round %d of %s is not the same again: %s", sequence, id, again.Difference)
				if again.Unread != nil {
					err = fmt.Errorf("%w; %w", err, again.Unread)
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "")
	cmd.Flags().IntVar(&workers, "workers", 0, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func replayRound(ctx context.Context, dir, id string, sequence int64, workers int) (
	*controller.Repetition, error) {
	r, err := store.OpenReader(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	saved, _, _, err := r.Load()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(saved, func(s controller.Saved) bool { return s.Scheduler.ID == id })
	switch {
	case i < 0:
		return nil, fmt.Errorf("%s has no scheduler %q", dir, id)
	case saved[i].Fault != nil:
		return nil, saved[i].Fault
	}
	var record *controller.RoundRecord
	err = r.Rounds(saved[i].Scheduler.UID, sequence+1, func(n int64, text []byte, err error) bool {
		if n == sequence {
			record = controller.DecodeRound(n, text, err)
		}
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, fmt.Errorf("%s has no round %d of %s: it is not kept any more, or there was none", dir, sequence,
			id)
	case record.Damage != nil:
		return nil, record.Damage
	}
	return controller.RepeatRound(ctx, r, &saved[i], record, round.DecideOnline, workers)
}
