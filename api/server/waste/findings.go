// Package waste serves telemetry, and findings of waste in a cluster.
package waste

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/service/findings"
)

const (
	maxSnooze = 365 * 24 * time.Hour
)

// ListFindings lists findings. Its tokens are the last one listed.
func (s *Service) ListFindings(_ context.Context, req *pb.ListFindingsRequest) (*pb.ListFindingsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		_, _, err = s.o.Controller.Scheduler(id)
	}
	if err != nil {
		return nil, err
	}
	size, err := rpc.PageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	if _, known := pb.Finding_State_name[int32(req.GetState())]; !known {
		return nil, convert.Invalid("state", "%d is not known", req.GetState())
	}
	t, err := s.o.Pages.After(req)
	if err != nil {
		return nil, err
	}
	all, rules, more := s.o.Findings.List(id, findings.Query{Open: req.GetState() == pb.Finding_OPEN,
		Closed: req.GetState() == pb.Finding_CLOSED, Rule: req.GetRule(), Kind: req.GetEntityKind(),
		Entity: req.GetEntity(), Limit: size, AfterID: t.After, AfterOpened: time.Unix(0, t.Revision)})
	out := &pb.ListFindingsResponse{}
	for _, f := range all {
		out.Findings = append(out.Findings, findingToProto(id, f))
	}
	if more {
		last := all[len(all)-1]
		out.NextPageToken = s.o.Pages.Next(req, rpc.Token{After: last.ID, Revision: last.Opened.UnixNano()})
	}
	for i := range rules {
		r := &rules[i]
		one := &pb.ListFindingsResponse_RuleSummary{Rule: r.Rule, TotalCount: int64(r.Total),
			OpenCount: int64(r.Open), AcknowledgedCount: int64(r.Acknowledged),
			FalsePositiveCount: int64(r.FalsePositives),
			WastedGpuHours:     r.Wasted, Cost: r.Cost}
		if share, known := r.Precision(); known {
			one.Precision = &share
		}
		out.Rules = append(out.Rules, one)
	}
	return out, nil
}

// GetFinding returns a finding.
func (s *Service) GetFinding(_ context.Context, req *pb.GetFindingRequest) (*pb.Finding, error) {
	return s.change(req.GetName(), s.o.Findings.Get)
}

// change calls f with a finding's scheduler and id.
func (s *Service) change(name string, f func(scheduler, id string) (*findings.Finding, error)) (*pb.Finding,
	error) {
	scheduler, id, err := convert.ParseFinding("name", name)
	if err == nil {
		_, _, err = s.o.Controller.Scheduler(scheduler)
	}
	if err != nil {
		return nil, err
	}
	got, err := f(scheduler, id)
	if err != nil {
		return nil, err
	}
	return findingToProto(scheduler, got), nil
}

// judge changes the marks of a finding, and records the change.
func (s *Service) judge(ctx context.Context, req interface {
	GetName() string
	GetReason() string
}, f func(scheduler, id, by string) (*findings.Finding, error)) (*pb.Finding, error) {
	return s.change(req.GetName(), func(scheduler, id string) (*findings.Finding, error) {
		was, err := s.o.Findings.Get(scheduler, id)
		if err != nil {
			return nil, err
		}
		is, err := f(scheduler, id, access.FromContext(ctx).Name)
		if err != nil {
			return nil, err
		}
		return is, s.o.Controller.Note(ctx, rpc.CallOf(ctx, req), scheduler, req.GetReason(),
			"findings/"+id+".", was.Marks, is.Marks)
	})
}

// checkReason bounds the reason of a caller.
func checkReason(text string) error {
	var c convert.Checker
	c.Text("reason", text)
	return c.Err()
}

// AcknowledgeFinding says that a finding is true and seen to.
func (s *Service) AcknowledgeFinding(ctx context.Context, req *pb.AcknowledgeFindingRequest) (*pb.Finding, error) {
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.Acknowledge(scheduler, id, by, req.GetReason())
		})
}

// SnoozeFinding makes a finding silent for a while.
func (s *Service) SnoozeFinding(ctx context.Context, req *pb.SnoozeFindingRequest) (*pb.Finding, error) {
	now := s.o.Now()
	var c convert.Checker
	until := time.Unix(0, int64(c.Time("until_time", req.GetUntilTime())))
	switch {
	case req.GetUntilTime() == nil:
		c.Add("until_time", "is required")
	case !until.After(now):
		c.Add("until_time", "is not after the service's clock, "+now.UTC().Format(time.RFC3339))
	case until.Sub(now) > maxSnooze:
		c.Add("until_time", "is more than a year ahead of the service's clock")
	}
	c.Text("reason", req.GetReason())
	if err := c.Err(); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.Snooze(scheduler, id, by, req.GetReason(), until)
		})
}

// MarkFalsePositive says that a finding is wrong.
func (s *Service) MarkFalsePositive(ctx context.Context, req *pb.MarkFalsePositiveRequest) (*pb.Finding, error) {
	if strings.TrimSpace(req.GetReason()) == "" {
		return nil, convert.Invalid("reason", "is required: say why the finding is wrong")
	}
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.MarkFalsePositive(scheduler, id, by, req.GetReason())
		})
}

func findingToProto(scheduler string, f *findings.Finding) *pb.Finding {
	out := &pb.Finding{Name: convert.FindingName(scheduler, f.ID), Rule: f.Rule, EntityKind: f.Entity.Kind,
		Entity: f.Entity.Name, JobId: f.Job, State: pb.Finding_OPEN, BeginTime: timestamppb.New(f.Began),
		OpenTime: timestamppb.New(f.Opened), UpdateTime: timestamppb.New(f.Updated), Confidence: f.Confidence,
		WastedGpuHours: f.WastedGPUHours, Cost: f.Cost, Affected: f.Affected, Action: f.Action,
		Words: f.Words, Lost: f.Lost,
		Acknowledged: markToProto(f.Acknowledged), Snoozed: markToProto(f.Snoozed),
		FalsePositive: markToProto(f.FalsePositive)}
	if !f.Open {
		out.State, out.CloseTime = pb.Finding_CLOSED, timestamppb.New(f.Closed)
	}
	for _, e := range f.Evidence {
		out.Evidence = append(out.Evidence, &pb.Finding_Evidence{What: e.What, Value: e.Value, Threshold: e.Threshold,
			Unit: e.Unit, StartTime: timestamppb.New(e.From), EndTime: timestamppb.New(e.To)})
	}
	return out
}

func markToProto(m *findings.Mark) *pb.Finding_Mark {
	if m == nil {
		return nil
	}
	out := &pb.Finding_Mark{Actor: m.By, CreateTime: timestamppb.New(m.At), Reason: m.Reason}
	if !m.Until.IsZero() {
		out.UntilTime = timestamppb.New(m.Until)
	}
	return out
}
