package explain

import (
	"context"
	"errors"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
)

// GetRound returns a stored round.
func (s *Service) GetRound(_ context.Context, req *pb.GetRoundRequest) (*pb.Round, error) {
	id, sequence, err := convert.ParseRound("name", req.GetName())
	if err != nil {
		return nil, err
	}
	r, err := s.o.Controller.Round(id, sequence)
	if err != nil {
		return nil, err
	}
	out, err := render.RoundToProto(id, r, true)
	return out, err
}

// ListRounds lists the stored rounds of a scheduler, newest first.
func (s *Service) ListRounds(_ context.Context, req *pb.ListRoundsRequest) (*pb.ListRoundsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) (out []*pb.Round, err error) {
		if after.Revision == 1 {
			return nil, nil
		}
		all, err := s.o.Controller.Rounds(id, after.Revision, n)
		for _, r := range all {
			one, bad := render.RoundToProto(id, r, false)
			out, err = append(out, one), errors.Join(err, bad)
		}
		return out, err
	}
	place := func(x *pb.Round) rpc.Token {
		_, sequence, _ := convert.ParseRound("name", x.GetName()) // of RoundName
		return rpc.Token{Revision: sequence}
	}
	page, next, err := rpc.List[*pb.Round]{Some: some, Place: place,
		Lacks: []string{"candidates", "settings"}}.Page(s.o.Pages, req)
	return &pb.ListRoundsResponse{Rounds: page, NextPageToken: next}, err
}
