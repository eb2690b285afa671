package rpc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/testshared"
)

// TestReasonsArePageRows: every reason of the service's errors has a row with its code in docs/reference/errors.md, and
// each row a reason.
func TestReasonsArePageRows(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| reason | code | what to do |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z_]+) \| ([A-Z_]+) \| \S.* \|$`).FindAllStringSubmatch(table, -1) {
		rows[row[1]] = row[2]
	}
	found := map[string]string{reasonQuota: codepb.Code_RESOURCE_EXHAUSTED.String()}
	for _, r := range reasons {
		code := codepb.Code(r.code).String()
		if before, ok := found[r.reason]; ok && before != code {
			t.Errorf("%s is of the codes %s and %s", r.reason, before, code)
		}
		found[r.reason] = code
	}
	for reason, code := range found {
		if rows[reason] != code {
			t.Errorf("%s has code %s, its row in docs/reference/errors.md %q", reason, code, rows[reason])
		}
	}
	for reason := range rows {
		if found[reason] == "" {
			t.Errorf("docs/reference/errors.md has a row for %s, which is no reason", reason)
		}
	}
}

// However much is wrong with a request, the answer fits into the trailers of every client.
func TestErrorsAreSmall(t *testing.T) {
	testshared.Full(t)
	var bad convert.Violations
	for i := range 100_000 {
		bad.Add(fmt.Sprintf("scheduler.spec.parameters[%d]", i), "%s is no value", strings.Repeat("ä", 1<<min(i, 10)))
	}
	for _, v := range []convert.Violations{bad, bad[1000:], bad[:1], bad[10:11]} {
		st, _ := status.FromError(violationStatus(v))
		data, err := proto.Marshal(st.Proto())
		if err != nil || len(data) == 0 || len(data) > 5000 {
			t.Errorf("%d violations are %d bytes: %v", len(v), len(data), err)
		}
		if more := strings.HasSuffix(st.Message(), "more"); more != (len(v) > 1) || !strings.Contains(st.Message(),
			v[0].GetField()) {
			t.Errorf("%d violations: %s", len(v), st.Message())
		}
	}
}
