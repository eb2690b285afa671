package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload/trace"
)

const jobsCSV = `# autosched trace v1 zero=2024-01-01T00:00:00Z
job_id,user,submit_time,duration_s,gpus
a,u,2024-01-01T00:00:00Z,3600,1
b,u,2024-01-01T01:00:00Z,7200,2
c,u,not a time,1,1
d,u,2024-01-01T02:00:00Z,60,100000
`

// uploaded sends a file in small parts.
func uploaded(t *testing.T, f *fixture, first *pb.UploadWorkloadRequest,
	text string) (*pb.UploadWorkloadResponse, error) {
	t.Helper()
	stream, err := pb.NewWorkloadServiceClient(f.conn).UploadWorkload(background(t))
	if err != nil {
		t.Fatal(err)
	}
	for req := first; req != nil; {
		if err := stream.Send(req); err != nil {
			break
		}
		if req = nil; len(text) > 0 {
			n := min(50, len(text))
			req = &pb.UploadWorkloadRequest{Data: []byte(text[:n])}
			text = text[n:]
		}
	}
	return stream.CloseAndRecv()
}

func downloaded(t *testing.T, f *fixture, name string) ([]byte, error) {
	t.Helper()
	stream, err := pb.NewWorkloadServiceClient(f.conn).DownloadWorkload(background(t),
		&pb.DownloadWorkloadRequest{Name: name})
	var out []byte
	for err == nil {
		var part *pb.DownloadWorkloadResponse
		part, err = stream.Recv()
		out = append(out, part.GetData()...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

// TestWorkloads: an upload is described, downloads as the same jobs, is listed and deleted, and is there after a
// restart.
func TestWorkloads(t *testing.T) {
	dir := t.TempDir()
	f := serveWith(t, dir, controller.Options{}, Options{})
	registerExternal(t, f)
	client := pb.NewWorkloadServiceClient(f.conn)
	first := &pb.UploadWorkloadRequest{Parent: "schedulers/s", WorkloadId: "july", DisplayName: "July",
		Labels: map[string]string{"team": "a"}, RequestId: "once"}
	got, err := uploaded(t, f, first, jobsCSV)
	if err != nil {
		t.Fatal(err)
	}
	w := got.GetWorkload()
	x := w.GetStatistics()
	if got.GetFormat() != "autosched" || got.GetRejectedRowCount() != 1 || got.GetRejectedRows()[0].GetLine() != 5 ||
		got.GetRejectedRows()[0].GetField() != "submit_time" || w.GetRejectedRowCount() != 1 ||
		w.GetName() != "schedulers/s/workloads/july" || w.GetOrigin() != pb.Workload_UPLOADED ||
		x.GetJobCount() != 3 || x.GetGpus() != 100003 || x.GetWiderJobCount() != 1 ||
		x.GetDurationSeconds().GetP50() != 3600 || x.GetWidthGpus().GetMax() != 100000 || w.GetFuture() != nil {
		t.Errorf("%v", got)
	}
	again, err := uploaded(t, f, first, jobsCSV)
	if err != nil || again.GetWorkload().GetUid() != w.GetUid() {
		t.Errorf("sent again: %v %v", again, err)
	}
	if _, err := uploaded(t, f, first, strings.Replace(jobsCSV, "3600", "3601", 1)); status.Code(
		err) != codes.AlreadyExists || !strings.Contains(err.Error(), "request id") {
		t.Errorf("other jobs with the same request_id: %v", err)
	}
	for id, text := range map[string]string{"b": jobsCSV, "z": jobsCSV} {
		req := &pb.UploadWorkloadRequest{Parent: "schedulers/s", WorkloadId: id}
		if _, err := uploaded(t, f, req, text); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(req *pb.ListWorkloadsRequest) (ids string) {
		t.Helper()
		req.Parent = "schedulers/s"
		for {
			out, err := client.ListWorkloads(background(t), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range out.GetWorkloads() {
				ids += one.GetName()[len("schedulers/s/workloads/"):] + " "
			}
			if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
				return ids
			}
		}
	}
	for want, req := range map[string]*pb.ListWorkloadsRequest{
		"b july z ": {PageSize: 2},
		"july ":     {Filter: "labels.team = a AND statistics.job_count >= 3"},
		"z july b ": {OrderBy: "name desc", PageSize: 1},
	} {
		if ids := listed(req); ids != want {
			t.Errorf("%v: %s, want %s", req, ids, want)
		}
	}
	f.stop()
	f = serveWith(t, dir, controller.Options{}, Options{})
	client = pb.NewWorkloadServiceClient(f.conn)
	after, err := client.GetWorkload(background(t), &pb.GetWorkloadRequest{Name: w.GetName()})
	if err != nil || after.GetSha256() != w.GetSha256() || after.GetStatistics().GetGpuHours() != x.GetGpuHours() {
		t.Errorf("after a restart: %v %v", after, err)
	}
	text, err := downloaded(t, f, w.GetName())
	if err != nil || int64(len(text)) != w.GetSizeBytes() {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	read, report, err := trace.Read(t.Context(), bytes.NewReader(text), "downloaded", trace.Options{})
	if err != nil || read.Len() != 3 || report.Rejected > 0 {
		t.Errorf("%+v %v", report, err)
	}
	del := &pb.DeleteWorkloadRequest{Name: w.GetName(), Etag: "1-other"}
	if _, err := client.DeleteWorkload(background(t), del); status.Code(err) != codes.Aborted {
		t.Errorf("with another etag: %v", err)
	}
	del.Etag, del.ValidateOnly = after.GetEtag(), true
	if _, err := client.DeleteWorkload(background(t), del); err != nil ||
		listed(&pb.ListWorkloadsRequest{}) != "b july z " {
		t.Errorf("a check deleted it, %v", err)
	}
	del.ValidateOnly, del.RequestId = false, "delete"
	for range 2 {
		if _, err := client.DeleteWorkload(background(t), del); err != nil {
			t.Error(err)
		}
	}
	if _, err := downloaded(t, f, w.GetName()); status.Code(err) != codes.NotFound {
		t.Errorf("after it was deleted: %v", err)
	}
	audited, err := pb.NewAuditServiceClient(f.conn).ListAuditRecords(background(t), &pb.ListAuditRecordsRequest{
		Resource: "schedulers/s"})
	if err != nil || audited.GetAuditRecords()[0].GetVerb() != "DeleteWorkload" ||
		audited.GetAuditRecords()[0].GetFields()[0].GetName() != "workloads/july.sha256" ||
		audited.GetAuditRecords()[3].GetVerb() != "UploadWorkload" {
		t.Errorf("%v %v", audited, err)
	}
}

// TestWorkloadsAreRefused: bad uploads are refused with their faults, and store nothing.
func TestWorkloadsAreRefused(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	good := func() *pb.UploadWorkloadRequest {
		return &pb.UploadWorkloadRequest{Parent: "schedulers/s", WorkloadId: "w"}
	}
	for _, c := range []struct {
		change func(*pb.UploadWorkloadRequest)
		text   string
		code   codes.Code
		says   string
	}{
		{func(r *pb.UploadWorkloadRequest) { r.Parent = "s" }, jobsCSV, codes.InvalidArgument, "parent"},
		{func(r *pb.UploadWorkloadRequest) { r.Parent = "schedulers/none" }, jobsCSV, codes.NotFound, "none"},
		{func(r *pb.UploadWorkloadRequest) { r.WorkloadId = "W" }, jobsCSV, codes.InvalidArgument, "workload_id"},
		{func(r *pb.UploadWorkloadRequest) { r.Labels = map[string]string{"A": ""} }, jobsCSV, codes.InvalidArgument,
			"labels"},
		{func(r *pb.UploadWorkloadRequest) { r.DisplayName = strings.Repeat("x", 64) }, jobsCSV, codes.InvalidArgument,
			"display_name"},
		{func(r *pb.UploadWorkloadRequest) { r.Strict = true }, jobsCSV, codes.InvalidArgument, "w:5: submit_time"},
		{func(r *pb.UploadWorkloadRequest) { r.Format = "none" }, jobsCSV, codes.InvalidArgument, "none"},
		{func(*pb.UploadWorkloadRequest) {}, "", codes.InvalidArgument, "it is empty"},
		{func(*pb.UploadWorkloadRequest) {}, "x,y\n1,2\n", codes.InvalidArgument,
			"'autosched trace import' converts other tables: if it is a table, say what its columns mean with --columns"},
		{func(*pb.UploadWorkloadRequest) {}, "# autosched trace v1 zero=0000-01-01T00:00:00Z\n" +
			"job_id,submit_time,duration_s,gpus\na,0000-01-01T00:00:00Z,1,1\n", codes.InvalidArgument,
			"years 1 to 9999"},
		{func(r *pb.UploadWorkloadRequest) { r.RequestId = strings.Repeat("x", 65) }, jobsCSV, codes.InvalidArgument,
			"request_id"},
	} {
		req := good()
		c.change(req)
		if _, err := uploaded(t, f, req, c.text); status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %v of %s", req, err, c.code, c.says)
		}
	}
	check := good()
	check.ValidateOnly = true
	if got, err := uploaded(t, f, check, jobsCSV); err != nil || got.GetWorkload().GetStatistics().GetJobCount() != 3 {
		t.Errorf("checked only: %v %v", got, err)
	}
	client := pb.NewWorkloadServiceClient(f.conn)
	if got, err := client.ListWorkloads(background(t), &pb.ListWorkloadsRequest{Parent: "schedulers/s"}); err != nil ||
		len(got.GetWorkloads()) > 0 {
		t.Errorf("%v %v", got, err)
	}
	for i := range workloads.MaxWorkloads {
		req := good()
		req.WorkloadId = fmt.Sprintf("w%d", i)
		if _, err := uploaded(t, f, req, jobsCSV); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := uploaded(t, f, good(), jobsCSV); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "delete some") {
		t.Errorf("one too many: %v", err)
	}
	for want, req := range map[string]*pb.GenerateWorkloadRequest{
		"is not simulated": {Parent: "schedulers/s", WorkloadId: "w"},
		"delete some":      {Parent: "schedulers/s", WorkloadId: "w"},
		"already exists":   {Parent: "schedulers/s", WorkloadId: "w1"},
		"future: -1":       {Parent: "schedulers/s", WorkloadId: "w", Future: -1},
		"another scheduler": {Parent: "schedulers/s", WorkloadId: "w",
			Source: &pb.GenerateWorkloadRequest_Round{Round: "schedulers/other/rounds/1"}},
		"neither a seed": {Parent: "schedulers/s", WorkloadId: "w", Future: 1,
			Source: &pb.GenerateWorkloadRequest_EndedJobs{EndedJobs: &pb.JobWindow{}}},
	} {
		if want == "is not simulated" {
			if _, err := client.DeleteWorkload(background(t), &pb.DeleteWorkloadRequest{
				Name: "schedulers/s/workloads/w0"}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := client.GenerateWorkload(background(t), req)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", req, err, want)
		}
		if want == "is not simulated" {
			again := good()
			again.WorkloadId = "w0"
			if _, err := uploaded(t, f, again, jobsCSV); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUploadOfManyJobs: an upload of more jobs than are kept ends at the row after the last that could be.
func TestUploadOfManyJobs(t *testing.T) {
	f := serve(t, nil)
	registerExternal(t, f)
	var file bytes.Buffer
	text := gzip.NewWriter(&file)
	fmt.Fprint(text, "# autosched trace v1 zero=2024-01-01T00:00:00Z\njob_id,submit_time,duration_s,gpus\n")
	for i := range workloads.MaxJobs + 2 {
		fmt.Fprintf(text, "%d,2024-01-01T00:00:00Z,1,1\n", i)
	}
	fmt.Fprintln(text, "a row that is refused")
	if err := text.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := uploaded(t, f, &pb.UploadWorkloadRequest{Parent: "schedulers/s", WorkloadId: "w", Strict: true,
		Data: file.Bytes()}, "")
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 200000 jobs") {
		t.Error(err)
	}
}
