package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

var wordRules = []rule{
	{"nothing is put off in the code", "no " + later[0] + " and no " + later[1] + ": do it or leave it", noneLater},
	{"no path of one machine", "paths are relative, or come from the configuration: a checkout works wherever it is", noneLocal},
	{"a disabled check has its reason", "write why behind it", reasoned},
}

// later is what unfinished code is marked with. Written in two parts, so that this file is clean.
var later = []string{"TO" + "DO", "FIX" + "ME"}

var (
	marks      = regexp.MustCompile(`\b(` + later[0] + `|` + later[1] + `)\b`)
	localPaths = regexp.MustCompile("(^|[\\s\"'`=(:,])" + `/(home|Users|root|workspace)/\w`)
	disabling  = regexp.MustCompile(`//(nolint|lint:ignore)[\w:,]*( [A-Z]+[0-9]+)?\s*$`)
)

// notOurs are folders without sources, and notText files that are not prose or code.
var (
	notOurs = []string{".git", ".andes", "bin", "rapid"}
	notText = []string{".sum", ".png", ".svg", ".ico", ".csv", ".gz", ".woff2"}
)

func noneLater(*tree) []violation { return lines(marks, "has a mark") }

func noneLocal(*tree) []violation {
	found := lines(localPaths, "has an absolute path")
	here, err := filepath.Abs(root)
	if err != nil {
		return append(found, violation{where: root, what: err.Error()})
	}
	return append(found, lines(regexp.MustCompile(regexp.QuoteMeta(here)+`\b`), "has the path of this checkout")...)
}
func reasoned(s *tree) []violation { return lines(disabling, "disables a check") }

// lines finds what every text file of the repository must not hold.
func lines(pattern *regexp.Regexp, what string) []violation {
	found := map[violation]bool{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && slices.Contains(notOurs, entry.Name()) {
				return filepath.SkipDir
			}
			return err
		}
		if slices.Contains(notText, filepath.Ext(name)) || !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			if match := pattern.Find(line); match != nil {
				found[violation{relative, i + 1, what + ": " + string(bytes.TrimSpace(match))}] = true
			}
		}
		return nil
	})
	if err != nil {
		found[violation{where: root, what: err.Error()}] = true
	}
	return byPlace(found)
}
