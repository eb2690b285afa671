package render

import (
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/service/reports"
)

// Changes are summaries of reported metrics by revision.
type Changes interface {
	// Changes returns the metrics reported under a revision, each with that of the revision before.
	Changes(scheduler string, revision int64) ([]reports.Change, error)
}

// Reported returns the metrics reported under a revision, none if c is nil.
func Reported(c Changes, id string, revision int64) (out []*pb.ReportedMetric, err error) {
	if c == nil {
		return nil, nil
	}
	all, err := c.Changes(id, revision)
	for _, c := range all {
		one := summaryToProto(&c.Summary)
		if c.Before != nil {
			one.Previous = summaryToProto(c.Before)
		}
		out = append(out, one)
	}
	return out, err
}

func summaryToProto(s *reports.Summary) *pb.ReportedMetric {
	out := &pb.ReportedMetric{MetricId: s.Metric, ConfigurationRevision: s.Revision, Mean: s.Mean,
		IntervalCount: int32(s.Intervals), ReportCount: int32(s.Reports), StartTime: timestamppb.New(s.From),
		EndTime: timestamppb.New(s.To)}
	if !math.IsNaN(s.Low) {
		out.MeanLow, out.MeanHigh = &s.Low, &s.High
	}
	return out
}
