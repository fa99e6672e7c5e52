package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
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
	localPaths = regexp.MustCompile("(?m)(^|[ \\t\"'`=(:,])" + `/(home|Users|root|workspace)/\w`)
	disabling  = regexp.MustCompile(`(?m)//(nolint|lint:ignore)[\w:,]*( [A-Z]+[0-9]+)?[ \t]*$`)
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

// text is a text file of the repository.
type text struct {
	name    string // from the module's root
	content []byte
}

// texts reads them all, once.
var texts = sync.OnceValues(func() ([]text, error) {
	var found []text
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
		found = append(found, text{relative, content})
		return err
	})
	return found, err
})

// lines finds what no text file of the repository may hold.
func lines(pattern *regexp.Regexp, what string) []violation {
	found := map[violation]bool{}
	all, err := texts()
	if err != nil {
		found[violation{where: root, what: err.Error()}] = true
	}
	for _, file := range all {
		for _, at := range pattern.FindAllIndex(file.content, -1) {
			line := 1 + bytes.Count(file.content[:at[0]], []byte("\n"))
			match := string(bytes.TrimSpace(file.content[at[0]:at[1]]))
			found[violation{file.name, line, what + ": " + match}] = true
		}
	}
	return byPlace(found)
}
