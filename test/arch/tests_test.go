package arch

import (
	"go/ast"
	"slices"
)

var testRules = []rule{
	{"no test is skipped", "a test that does not run says nothing: make it run or remove it", neverSkipped},
	{"tests do not sleep", "wait for a signal, use testing/synctest, or poll a condition of another process through one shared function", neverSlept},
}

// testers are the names that tests give to their *testing.T and the like.
var testers = []string{"t", "tb", "b", "f", "rt"}

func testCode(p *pack, f *source) bool { return f.isTest || p.under("test") }

func neverSkipped(s *tree) []violation {
	return s.each(testCode, func(_ *source, n ast.Node) string {
		selector, is := n.(*ast.SelectorExpr)
		if !is {
			return ""
		}
		if on, is := selector.X.(*ast.Ident); is && slices.Contains(testers, on.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, selector.Sel.Name) {
			return "skips a test"
		}
		return ""
	})
}

func neverSlept(s *tree) []violation {
	return s.each(testCode, func(f *source, n ast.Node) string {
		if !f.inBubble() && f.uses(n) == "time.Sleep" {
			return "sleeps"
		}
		return ""
	})
}
