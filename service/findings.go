package service

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/store"
)

// openFindings makes the keeper of findings and the receivers of its notices.
func (s *service) openFindings() (err error) {
	o := s.o.Findings
	var notify []func(*findings.Notice)
	if o.RoundsEvery > 0 {
		s.rounds = findings.NewRounds(o.RoundsEvery, s.roundOn, s.log)
		notify = append(notify, s.rounds.Notify)
	}
	if o.Webhook != "" {
		if s.webhook, err = findings.NewWebhook(o.Webhook, s.log); err != nil {
			return err
		}
		notify = append(notify, s.webhook.Notify)
	}
	s.findings = findings.Open(findings.Options{Dir: filepath.Join(s.o.Dir, store.FindingsFolder), Rules: o.Rules,
		Log: s.log, Price: o.Price, Room: s.store.Room, Notify: func(n *findings.Notice) {
			for _, f := range notify {
				f(n)
			}
		}})
	return nil
}

// roundOn triggers a round in the name of a finding, unless one of its rounds is known.
func (s *service) roundOn(ctx context.Context, n *findings.Notice) error {
	actor := convert.FindingName(n.Scheduler, n.ID)
	for _, o := range s.controller.Operations(n.Scheduler) {
		if o.Actor == actor {
			return fmt.Errorf("operation %s was asked for by it", o.ID)
		}
	}
	_, err := s.controller.TriggerRound(ctx, controller.Call{Origin: audit.Origin{Actor: actor, Verb: "TriggerRound",
		Reason: fmt.Sprintf("%s of %s %s", n.Rule, n.Entity.Kind, n.Entity.Name)}}, n.Scheduler, round.SearchFull)
	return err
}
