package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	codepb "google.golang.org/genproto/googleapis/rpc/code"
)

// TestReasonsArePageRows: every reason of the service's errors has a row with its code in docs/reference/errors.md, and
// each row a reason.
func TestReasonsArePageRows(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "errors.md"))
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
