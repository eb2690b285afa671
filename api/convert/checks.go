package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"
)

// MetricID is the name of a metric that callers measure.
var MetricID = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// CheckMetric adds a violation to v unless name matches MetricID.
func CheckMetric(field, name string, v *Violations) {
	if !MetricID.MatchString(name) {
		v.Add(field, "%q is not 1 to 63 of a-z, 0-9 and '_', starting with a letter", name)
	}
}

// MaxRequestID bounds the field request_id, in bytes.
const MaxRequestID = 64

const maxLabels = 64

var labelKey = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

var labelValue = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)

// CheckLabels adds to v a violation for each malformed key and value, and one for more than 64 labels.
func CheckLabels(field string, labels map[string]string, v *Violations) {
	if n := len(labels); n > maxLabels {
		v.Add(field, "has %d, more than %d", n, maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(key) {
			v.Add(field, "key %.80q is not 1 to 63 of a-z, 0-9, '_' and '-' beginning with a letter", key)
		}
		if value := labels[key]; !labelValue.MatchString(value) {
			v.Add(fmt.Sprintf("%s[%.80q]", field, key), "%.80q is not at most 63 of a-z, 0-9, '_' and '-'", value)
		}
	}
}

// CheckDisplayName adds a violation to v if name is longer than 63 characters.
func CheckDisplayName(field, name string, v *Violations) {
	if utf8.RuneCountInString(name) > 63 {
		v.Add(field, "is longer than 63 characters")
	}
}
