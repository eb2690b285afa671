package units

import (
	"regexp"
	"slices"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:@+=,/%-]+$`)

// Command is a command line as a shell would read it.
func Command(words []string) string {
	quoted := slices.Clone(words)
	for i, w := range quoted {
		if !plainWord.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// Distance is the number of bytes to insert, remove or replace that makes one word another, as Levenshtein counts it.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
