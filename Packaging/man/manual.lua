-- What pandoc changes in the pages: code is bold, a link is its text, and a table is a list of its last column's texts.
local inlines = pandoc.utils.blocks_to_inlines

function Code(code) return pandoc.Strong(code.text) end

function Link(link) return link.content end

function Table(block)
    local items = {}
    for _, row in ipairs(pandoc.utils.to_simple_table(block).rows) do
        local term, others = inlines(row[1]), pandoc.List()
        for column = 2, #row - 1 do others:extend(row[column]) end
        if #others > 0 then term = term .. {pandoc.Str " ("} .. inlines(others, {pandoc.Str "; "}) .. {pandoc.Str ")"} end
        table.insert(items, {term, {row[#row]}})
    end
    return pandoc.DefinitionList(items)
end
