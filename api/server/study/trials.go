package study

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// measurement reads the measurement of a client; the last one has the metric of the study.
func measurement(field string, p *pb.Measurement, spec *study.Spec, last bool) (*study.Measurement, error) {
	m := &study.Measurement{Step: p.GetStepCount(), Metrics: p.GetMetrics()}
	if d := p.GetElapsedDuration(); d != nil {
		if err := d.CheckValid(); err != nil {
			return nil, convert.Invalid(field+".elapsed_duration", "%v", err)
		}
		m.Elapsed = d.AsDuration()
	}
	for name := range m.Metrics {
		var v convert.Violations
		if convert.CheckMetric(field+".metrics", name, &v); v != nil {
			return nil, v
		}
	}
	if why := spec.Check(m, last); why != "" {
		return nil, convert.Invalid(field+".metrics", "%s", why)
	}
	return m, nil
}

// userConfig reads the parameters of a trial that a user wants, those left out at their defaults.
func userConfig(field string, p *pb.Trial, sp *space.Space) (space.Config, error) {
	text, err := protojson.Marshal(&structpb.Struct{Fields: p.GetParameters()})
	if err != nil {
		return space.Config{}, convert.Invalid(field+".parameters", "%v", err)
	}
	c, changes, err := sp.LoadConfig(text)
	if err != nil {
		return c, convert.Invalid(field+".parameters", "%v", err)
	}
	for _, ch := range changes {
		if !ch.From.IsZero() && !ch.To.IsZero() {
			return c, convert.Invalid(field+".parameters."+ch.Param, "%s breaks %s, which would make it %s",
				ch.From, ch.Rule,
				ch.To)
		}
	}
	return c, nil
}

// SuggestTrials returns the trials that a client holds.
func (s *Service) SuggestTrials(ctx context.Context, req *pb.SuggestTrialsRequest) (*pb.SuggestTrialsResponse,
	error) {
	scheduler, id, err := convert.ParseStudy("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	var v convert.Violations
	count := int(req.GetSuggestionCount())
	if count == 0 {
		count = 1
	}
	if count < 0 || count > study.MaxCount {
		v.Add("suggestion_count", "%d is not from 1 to %d", count, study.MaxCount)
	}
	if n := utf8.RuneCountInString(req.GetClientId()); n == 0 || n > 128 {
		v.Add("client_id", "has %d characters, want 1 to 128: a name that is the same when the client asks again", n)
	}
	if strings.HasPrefix(req.GetClientId(), study.EvaluatorClient) {
		v.Add("client_id", "%q begins with %s, as those of evaluators do", req.GetClientId(), study.EvaluatorClient)
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	state, held, err := s.o.Studies.Suggest(ctx, scheduler, id, req.GetClientId(), count)
	if err != nil {
		return nil, err
	}
	out := &pb.SuggestTrialsResponse{}
	for _, t := range held {
		out.Trials = append(out.Trials, render.TrialToProto(scheduler, &state, t))
	}
	if len(held) == 0 {
		out.PollAfter = durationpb.New(pollStudy)
	}
	return out, nil
}

// CreateTrial adds a trial that a user wants.
func (s *Service) CreateTrial(ctx context.Context, req *pb.CreateTrialRequest) (*pb.Trial, error) {
	scheduler, state, err := s.find("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	e, err := created("trial", req.GetTrial(), &state)
	if err != nil {
		return nil, err
	}
	return s.do(ctx, rpc.CallOf(ctx, req), scheduler, state.ID, 0, e)
}

// created reads a trial that a user adds.
func created(field string, p *pb.Trial, state *study.State) (e study.Create, err error) {
	if e.Config, err = userConfig(field, p, state.Space); err != nil {
		return e, err
	}
	if m := p.GetFinalMeasurement(); m != nil {
		e.Final, err = measurement(field+".final_measurement", m, &state.Spec, true)
	}
	return e, err
}

// maxTrials bounds the trials of one request.
const maxTrials = 1000

// BatchCreateTrials adds several trials, or none.
func (s *Service) BatchCreateTrials(ctx context.Context,
	req *pb.BatchCreateTrialsRequest) (*pb.BatchCreateTrialsResponse, error) {
	scheduler, state, err := s.find("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetTrials()); n < 1 || n > maxTrials {
		return nil, convert.Invalid("trials", "are %d, not 1 to %d", n, maxTrials)
	}
	var all []study.Create
	for i, p := range req.GetTrials() {
		field := fmt.Sprintf("trials[%d]", i)
		e, err := created(field, p, &state)
		if err != nil {
			return nil, err
		}
		switch ended := p.GetState(); {
		case ended == pb.Trial_STATE_UNSPECIFIED, ended == pb.Trial_SUCCEEDED && e.Final != nil:
		case ended != pb.Trial_FAILED && ended != pb.Trial_INFEASIBLE:
			err = convert.Invalid(field+".state",
				"is %v: want FAILED, INFEASIBLE, SUCCEEDED with a final_measurement, or none",
				ended)
		case e.Final != nil:
			err = convert.Invalid(field+".final_measurement", "a trial that is %v has none", ended)
		case p.GetReason() == "" || len(p.GetReason()) > longestText:
			err = convert.Invalid(field+".reason", "has %d bytes, want 1 to %d", len(p.GetReason()), longestText)
		case ended == pb.Trial_FAILED:
			e.Failure = p.GetReason()
		default:
			e.Infeasible = p.GetReason()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	state, trials, err := s.o.Studies.CreateTrials(ctx, rpc.CallOf(ctx, req), scheduler, state.ID, all)
	if err != nil {
		return nil, err
	}
	return &pb.BatchCreateTrialsResponse{Trials: rpc.Map(trials, func(t **study.Trial) *pb.Trial {
		return render.TrialToProto(scheduler, &state, *t)
	})}, nil
}

// CreatedBefore is the answer to a BatchCreateTrials that is sent again, of the name of its result: the first and the
// last trial.
func (s *Service) CreatedBefore(name string) (*pb.BatchCreateTrialsResponse, error) {
	var first, last int64
	parent, numbers, _ := strings.Cut(name, "/trials/")
	scheduler, id, err := convert.ParseStudy("parent", parent)
	if err == nil {
		_, err = fmt.Sscanf(numbers, "%d-%d", &first, &last)
	}
	if err != nil {
		return nil, convert.Invalid("request_id", "is of trials %q, which are not known", name)
	}
	state, err := s.o.Studies.Study(scheduler, id)
	if err != nil {
		return nil, err
	}
	out := &pb.BatchCreateTrialsResponse{}
	for n := first; n <= last; n++ {
		if t := state.Trial(n); t != nil {
			out.Trials = append(out.Trials, render.TrialToProto(scheduler, &state, t))
		}
	}
	return out, nil
}

// do makes a change of a trial.
func (s *Service) do(ctx context.Context, call controller.Call, scheduler, id string, trial int64,
	e study.Event) (*pb.Trial, error) {
	state, t, err := s.o.Studies.Do(ctx, call, scheduler, id, trial, e)
	if err != nil {
		return nil, err
	}
	return render.TrialToProto(scheduler, &state, t), nil
}

// change makes the change e of the trial that a request names.
func (s *Service) change(ctx context.Context, req interface{ GetName() string },
	e func(trial int64) study.Event) (*pb.Trial, error) {
	scheduler, id, trial, err := convert.ParseTrial("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.do(ctx, rpc.CallOf(ctx, req), scheduler, id, trial, e(trial))
}

// trial finds a trial with its study.
func (s *Service) trial(name string) (scheduler string, state study.State, t *study.Trial, err error) {
	scheduler, id, trial, err := convert.ParseTrial("name", name)
	if err != nil {
		return "", state, nil, err
	}
	if state, err = s.o.Studies.Study(scheduler, id); err != nil {
		return "", state, nil, err
	}
	if t = state.Trial(trial); t == nil {
		return "", state, nil, study.ErrNotFound
	}
	return scheduler, state, t, nil
}

// GetTrial returns a trial.
func (s *Service) GetTrial(_ context.Context, req *pb.GetTrialRequest) (*pb.Trial, error) {
	scheduler, state, t, err := s.trial(req.GetName())
	if err != nil {
		return nil, err
	}
	return render.TrialToProto(scheduler, &state, t), nil
}

// ListTrials lists the trials of a study.
func (s *Service) ListTrials(_ context.Context, req *pb.ListTrialsRequest) (*pb.ListTrialsResponse, error) {
	scheduler, state, err := s.find("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.Trial, error) {
		rest := state.Trials[min(int(after.Revision), len(state.Trials)):]
		return rpc.Map(rest[:min(n, len(rest))], func(t **study.Trial) *pb.Trial {
			return render.TrialToProto(scheduler, &state, *t)
		}), nil
	}
	place := func(x *pb.Trial) rpc.Token {
		_, _, number, _ := convert.ParseTrial("name", x.GetName()) // of TrialName
		return rpc.Token{Revision: number}
	}
	page, next, err := rpc.List[*pb.Trial]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListTrialsResponse{Trials: page, NextPageToken: next}, err
}

// AddTrialMeasurement adds an intermediate measurement to a trial.
func (s *Service) AddTrialMeasurement(ctx context.Context, req *pb.AddTrialMeasurementRequest) (*pb.Trial, error) {
	scheduler, state, t, err := s.trial(req.GetName())
	if err != nil {
		return nil, err
	}
	m, err := measurement("measurement", req.GetMeasurement(), &state.Spec, false)
	if err != nil {
		return nil, err
	}
	return s.do(ctx, rpc.CallOf(ctx, req), scheduler, state.ID, t.ID, study.Measure{Trial: t.ID, Measurement: *m})
}

// CompleteTrial ends a trial.
func (s *Service) CompleteTrial(ctx context.Context, req *pb.CompleteTrialRequest) (*pb.Trial, error) {
	scheduler, state, t, err := s.trial(req.GetName())
	if err != nil {
		return nil, err
	}
	e := study.Complete{Trial: t.ID}
	text := func(field, reason string) string {
		if n := len(reason); n == 0 || n > longestText {
			err = convert.Invalid(field, "has %d bytes, want 1 to %d", n, longestText)
		}
		return reason
	}
	switch r := req.GetResult().(type) {
	case *pb.CompleteTrialRequest_FinalMeasurement:
		e.Final, err = measurement("final_measurement", r.FinalMeasurement, &state.Spec, true)
	case *pb.CompleteTrialRequest_InfeasibleReason:
		e.Infeasible = text("infeasible_reason", r.InfeasibleReason)
	case *pb.CompleteTrialRequest_Failure:
		e.Failure = text("failure", r.Failure)
	}
	if err != nil {
		return nil, err
	}
	return s.do(ctx, rpc.CallOf(ctx, req), scheduler, state.ID, t.ID, e)
}

// StopTrial asks the client of a trial to end it.
func (s *Service) StopTrial(ctx context.Context, req *pb.StopTrialRequest) (*pb.Trial, error) {
	return s.change(ctx, req, func(trial int64) study.Event { return study.Stop{Trial: trial} })
}

// CheckTrialEarlyStoppingState stops a trial that does worse than others.
func (s *Service) CheckTrialEarlyStoppingState(ctx context.Context, req *pb.CheckTrialEarlyStoppingStateRequest) (
	*pb.CheckTrialEarlyStoppingStateResponse, error) {
	t, err := s.change(ctx, req, func(trial int64) study.Event { return study.Check{Trial: trial} })
	if err != nil {
		return nil, err
	}
	return &pb.CheckTrialEarlyStoppingStateResponse{ShouldStop: t.GetState() == pb.Trial_STOPPING}, nil
}

// RenewTrialLease renews the lease of a trial.
func (s *Service) RenewTrialLease(ctx context.Context, req *pb.RenewTrialLeaseRequest) (*pb.Trial, error) {
	return s.change(ctx, req, func(trial int64) study.Event { return study.Renew{Trial: trial} })
}

// ProposeTrial proposes the configuration of a trial to its scheduler.
func (s *Service) ProposeTrial(ctx context.Context, req *pb.ProposeTrialRequest) (*pb.Configuration, error) {
	scheduler, id, trial, err := convert.ParseTrial("name", req.GetName())
	if err != nil {
		return nil, err
	}
	return s.o.Stamp.Configured(s.o.Studies.Propose(ctx, rpc.CallOf(ctx, req), scheduler, id, trial))
}
