package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// Job returns a job of the scheduler by its id, with the times in which it ran, and its predicted run time while it
// waits or runs.
func (c *Client) Job(ctx context.Context, id string) (*pb.Job, error) {
	return c.jobs.GetJob(ctx, &pb.GetJobRequest{Name: pb.JobName(c.o.Scheduler, id)})
}

// ExplainJob says why a job waited, when it starts and ends in simulated futures, and what it uses. It waits for a
// round under way.
func (c *Client) ExplainJob(ctx context.Context, id string) (*pb.ExplainJobResponse, error) {
	return c.jobs.ExplainJob(ctx, &pb.ExplainJobRequest{Name: pb.JobName(c.o.Scheduler, id)})
}

// Jobs lists the scheduler's jobs, page after page, by the filter, order and bounds of a request, whose parent is
// filled in; nil lists all. An error ends the list.
func (c *Client) Jobs(ctx context.Context, r *pb.ListJobsRequest) iter.Seq2[*pb.Job, error] {
	r = requestOr(r, &pb.ListJobsRequest{})
	r.Parent = c.name
	return paged(func(token string) ([]*pb.Job, string, error) {
		if token != "" {
			r.PageToken = token
		}
		got, err := c.jobs.ListJobs(ctx, r)
		return got.GetJobs(), got.GetNextPageToken(), err
	})
}

// Tenants lists what each tenant got in a time, likewise.
func (c *Client) Tenants(ctx context.Context, r *pb.ListTenantsRequest) iter.Seq2[*pb.Tenant, error] {
	r = requestOr(r, &pb.ListTenantsRequest{})
	r.Parent = c.name
	return paged(func(token string) ([]*pb.Tenant, string, error) {
		if token != "" {
			r.PageToken = token
		}
		got, err := c.jobs.ListTenants(ctx, r)
		return got.GetTenants(), got.GetNextPageToken(), err
	})
}

// Load returns the load of the scheduler's cluster at the latest event.
func (c *Client) Load(ctx context.Context) (*pb.Load, error) {
	return c.jobs.GetLoad(ctx, &pb.GetLoadRequest{Name: c.name + "/load"})
}

// ForecastLoad simulates the load of the next hours. It waits for a round under way.
func (c *Client) ForecastLoad(ctx context.Context) (*pb.ForecastLoadResponse, error) {
	return c.jobs.ForecastLoad(ctx, &pb.ForecastLoadRequest{Name: c.name + "/load"})
}

// Timeline sums up the scheduler's jobs by rows and parts of a time, as a request says, whose name is filled in; nil is
// the day before the latest event, by tenants.
func (c *Client) Timeline(ctx context.Context, r *pb.GetTimelineRequest) (*pb.Timeline, error) {
	r = requestOr(r, &pb.GetTimelineRequest{})
	r.Name = c.name
	return c.jobs.GetTimeline(ctx, r)
}

// requestOr is a copy of a request, or another one for nil.
func requestOr[R interface {
	comparable
	proto.Message
}](r, otherwise R) R {
	var none R
	if r == none {
		return otherwise
	}
	return proto.CloneOf(r)
}

// paged reads pages as they are needed.
func paged[T any](page func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			some, next, err := page(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range some {
				if !yield(one, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}
