package httpapi

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"andes/eventstore"
)

// The page for people is made of the API document and the table of problems, without scripts, so that
// it works in a browser that reaches nothing else.

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"prose": prose}).Parse(pageSource))

type pageContent struct {
	Title, Version, Description string
	Partners                    bool // whether partners are served here
	Groups                      []pageGroup
	Schemas                     []pageSchema
	Codes                       []pageCode
}

type pageGroup struct {
	Name, Description string
	Operations        []pageOperation
}

type pageOperation struct {
	*huma.Operation
	Secured    bool
	Parameters []pageField
	Body       pageSchema
	Answers    []pageAnswer
	Refusals   []pageCode
}

// pageSchema is a body: its members and how it may look. Its name is empty when there is none.
type pageSchema struct {
	Name    string
	Fields  []pageField
	Example string
}

type pageAnswer struct{ Status, Description, Body string }

// pageCode is a row of the table of problems.
type pageCode struct {
	Code   eventstore.Code
	Status int
	Title  string
}

// prose writes a text with its `code` set as code.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // every part is escaped
}

func (a *API) renderPage(document *huma.OpenAPI, endpoints []*endpoint) ([]byte, error) {
	content := pageContent{
		Title: document.Info.Title, Version: document.Info.Version, Description: document.Info.Description,
		Partners: a.serves(Query) || a.serves(Command), Codes: codesOfPage(slices.Collect(maps.Keys(meanings))),
	}
	for _, tag := range document.Tags {
		group := pageGroup{Name: tag.Name, Description: tag.Description}
		for _, e := range endpoints {
			if e.tag == tag.Name {
				group.Operations = append(group.Operations, a.operationOfPage(e))
			}
		}
		content.Groups = append(content.Groups, group)
	}
	schemas := document.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		content.Schemas = append(content.Schemas, a.shapes.ofPage(name, schemas[name]))
	}
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, content)
	return page.Bytes(), err
}

func (a *API) operationOfPage(e *endpoint) pageOperation {
	op := a.operation(e)
	shown := pageOperation{Operation: op, Secured: len(op.Security) > 0, Refusals: codesOfPage(a.codes(e))}
	for _, p := range op.Parameters {
		shown.Parameters = append(shown.Parameters, pageField{Name: p.Name, Type: p.In, Needed: p.Required, About: p.Description})
	}
	if e.body != nil {
		schema := a.shapes.schema(e.body)
		shown.Body = a.shapes.ofPage(referred(schema), schema)
	}
	for _, good := range e.answers {
		response := op.Responses[strconv.Itoa(good.status)]
		shown.Answers = append(shown.Answers, pageAnswer{Status: strconv.Itoa(good.status), Description: good.description, Body: schemaIn(response.Content)})
	}
	return shown
}

// schemaIn names the component that a body is.
func schemaIn(content map[string]*huma.MediaType) string {
	for _, media := range content {
		return referred(media.Schema)
	}
	return ""
}

// referred names the component that a schema refers to.
func referred(schema *huma.Schema) string {
	return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
}

// codesOfPage gives the rows of codes, by status.
func codesOfPage(codes []eventstore.Code) []pageCode {
	list := make([]pageCode, len(codes))
	for i, code := range codes {
		list[i] = pageCode{Code: code, Status: meanings[code].status, Title: meanings[code].title}
	}
	slices.SortFunc(list, func(a, b pageCode) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	return list
}
