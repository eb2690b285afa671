package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
)

// CheckID checks the flag --id of a scheduler.
func CheckID(id string) error {
	if err := convert.CheckID(id); err != nil {
		return UsageError{fmt.Errorf("--id: %w", err)}
	}
	return nil
}

// ParametersLine lists the parameters of a trial as --set takes them, a blank before each.
func ParametersLine(t *pb.Trial) string {
	text := ""
	for _, id := range slices.Sorted(maps.Keys(t.GetParameters())) {
		text += " " + id + "=" + plainValue(t.GetParameters()[id])
	}
	return text
}

// plainValue is a value as --set takes it.
func plainValue(v *structpb.Value) string {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(k.NumberValue, 'g', -1, 64)
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(k.BoolValue)
	}
	var parts []string
	for _, one := range v.GetListValue().GetValues() {
		parts = append(parts, plainValue(one))
	}
	return strings.Join(parts, ",")
}

// ListTrials lists all trials of a study.
func ListTrials(ctx context.Context, c *Client, name string, l ListFlags) (*pb.ListTrialsResponse, error) {
	return Pages(func(page string) (*pb.ListTrialsResponse, error) {
		return c.Studies.ListTrials(ctx, &pb.ListTrialsRequest{Parent: name, PageSize: 1000, PageToken: page,
			Filter: l.Filter, OrderBy: l.OrderBy})
	})
}

// WorkloadArg reads SCHEDULER/WORKLOAD, or the full name of a workload.
func WorkloadArg(text string) (string, error) {
	short := strings.TrimPrefix(text, "schedulers/")
	if parts := strings.Split(short, "/"); len(parts) == 2 {
		return "schedulers/" + parts[0] + "/workloads/" + parts[1], nil
	} else if len(parts) == 3 && parts[1] == "workloads" {
		return "schedulers/" + short, nil
	}
	return "", UsageError{fmt.Errorf("%q is not a workload, as SCHEDULER/WORKLOAD; 'autosched scheduler workload list SCHEDULER' shows "+
		"them", text)}
}

// uploadPart is how much of a file one request carries, in bytes.
const uploadPart = 256 << 10

// SendWorkload uploads a file in parts.
func SendWorkload(ctx context.Context, c *Client, first *pb.UploadWorkloadRequest,
	in io.Reader) (*pb.UploadWorkloadResponse, error) {
	stream, err := c.Workloads.UploadWorkload(ctx)
	if err != nil {
		return nil, err
	}
	req := first
	for {
		part := make([]byte, uploadPart)
		n, end := io.ReadFull(in, part)
		if end != nil && !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
			return nil, end
		}
		req.Data = part[:n]
		if err := stream.Send(req); errors.Is(err, io.EOF) || end != nil {
			break // the answer says why
		} else if err != nil {
			return nil, err
		}
		req = &pb.UploadWorkloadRequest{}
	}
	return stream.CloseAndRecv()
}
