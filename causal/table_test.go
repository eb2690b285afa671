package causal

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
)

func TestReadCSV(t *testing.T) {
	table, err := ReadCSV(strings.NewReader("\ufeffpolicy, queues,x,code\nlas,3,0.5,7\nfifo,-2,1e3,8\n"),
		map[string]Kind{"code": Categorical})
	if err != nil {
		t.Fatal(err)
	}
	want := []Column{
		{Name: "policy", Kind: Categorical, Values: []float64{1, 0}, Levels: []string{"fifo", "las"}},
		{Name: "queues", Kind: Integer, Values: []float64{3, -2}},
		{Name: "x", Kind: Continuous, Values: []float64{0.5, 1000}},
		{Name: "code", Kind: Categorical, Values: []float64{0, 1}, Levels: []string{"7", "8"}},
	}
	if diff := cmp.Diff(want, table.columns); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	if err := table.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "policy,queues,x,code\nlas,3,0.5,7\nfifo,-2,1000,8\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestReadCSVErrors(t *testing.T) {
	testshared.Full(t)
	long := "id\n"
	for i := range maxLevels + 1 {
		long += "job" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + "\n"
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"no rows", "a,b\n", "no rows"},
		{"ragged", "a,b\n1\n", "wrong number of fields"},
		{"missing", "a,b\n1,2\n3,\n", `line 3, column "b": the value is missing`},
		{"NaN", "a,b\n1,2\n3,NaN\n", `line 3, column "b": NaN is not a finite number`},
		{"infinite", "a,b\n1,-inf\n", `line 2, column "b": -inf is not a finite number`},
		{"too large", "a\n1e999\n", `line 2, column "a": 1e999 is not a finite number`},
		{"word among numbers", "a\n1\nn/a\n", `line 3, column "a": "n/a" is not a number`},
		{"number among words", "a\nauto\n5\n", `line 3, column "a": "5" is a number`},
		{"declared a number", "z\nauto\n", `"auto" is not a number, but the column is declared int`},
		{"declared whole", "z\n1.5\n", "1.5 is not a whole number"},
		{"twice", "a,a\n1,2\n", `two columns "a"`},
		{"nameless", "a,\n1,2\n", "column 2 has no name"},
		{"identifiers", long, "more than 4096 different values"},
		{"wide", strings.Repeat("a,", maxColumns) + "a\n", "1025 columns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadCSV(strings.NewReader(tt.text), map[string]Kind{"z": Integer})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNewTableErrors(t *testing.T) {
	tests := []struct {
		name    string
		columns []Column
		want    string
	}{
		{"none", nil, "without columns"},
		{"lengths", []Column{{Name: "a", Values: []float64{1}}, {Name: "b"}}, `"b" has 0 values, "a" has 1`},
		{"NaN", []Column{{Name: "a", Values: []float64{1, math.NaN()}}}, `"a", row 2: NaN`},
		{"level", []Column{{Name: "a", Kind: Categorical, Values: []float64{1}, Levels: []string{"x"}}},
			"not the index"},
		{"unsorted", []Column{{Name: "a", Kind: Categorical, Values: []float64{1}, Levels: []string{"y", "x"}}},
			"not sorted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewTable(tt.columns...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	table, err := NewTable(NewCategorical("p", []string{"b", "a", "b"}), Column{Name: "x", Values: []float64{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	s := table.Select([]int{2, 2, 0})
	if got := s.Column(1).Values; !slices.Equal(got, []float64{3, 3, 1}) {
		t.Errorf("selected %v", got)
	}
	if got := table.Columns([]int{1}).Names(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("columns %v", got)
	}
	if table.Index("x") != 1 || table.Index("y") != -1 {
		t.Error("Index is wrong")
	}
	same := table.Select([]int{0, 1, 2})
	if table.Hash() != same.Hash() || table.Hash() == s.Hash() {
		t.Error("the hash does not follow the content")
	}
}
