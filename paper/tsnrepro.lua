-- The calculations and decisions of tsnrepro.sty.

local tsnrepro = {}

local function stop(what, reason)
  tex.error("Package tsnrepro Error: cannot calculate " .. what, {
    tostring(reason),
    "nil is an unknown value: test it with \\ifknown or \\ifbounded.",
  })
end

local function evaluate(what)
  local chunk, problem = load("return " .. what)
  if not chunk then return stop(what, problem) end
  local good, result = pcall(chunk)
  if not good then return stop(what, result) end
  if result == nil then return stop(what, "it is nil") end
  return result
end

-- From five digits, groups of three are separated by a thin space, as in the tables.
local function grouped(text)
  local whole, rest = text:match("^(%d+)(.*)$")
  if whole == nil or #whole < 5 then return text end
  local groups = whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return groups:gsub(",", "\\,") .. rest
end

local function supplemented()
  return tex.jobname:match("^(.*)%-supplement$")
end

-- Whether this job is the supplement, as a switch.
function tsnrepro.part()
  tex.sprint("\\csname tsn@supplement" .. (supplemented() and "true" or "false") .. "\\endcsname")
end

-- The name of the other job: the supplement of a paper, or the paper.
function tsnrepro.other()
  tex.sprint(supplemented() or tex.jobname .. "-supplement")
end

-- What follows from an unknown value is a dash, as the value is.
function tsnrepro.calc(digits, what)
  if what:find("%f[%w_]nil%f[^%w_]") then return tex.sprint("--") end
  local result = evaluate(what)
  if result == nil then return end
  if type(result) ~= "number" then return stop(what, "the result is not a number") end
  local sign = result < 0 and "\\ensuremath{-}" or ""
  tex.sprint(sign .. grouped(string.format("%." .. digits .. "f", math.abs(result))))
end

function tsnrepro.decide(what)
  local choice = evaluate(what) and "@firstoftwo" or "@secondoftwo"
  tex.sprint("\\csname " .. choice .. "\\endcsname")
end

-- The cells of a row: one command for each key in a pattern with {a,b}.
function tsnrepro.cells(command, keys)
  local before, words, after = keys:match("^([^{]*){([^{}]*)}([^}]*)$")
  if not words then return stop(keys, "there is no {a,b} in it") end
  local cells = {}
  for word in words:gmatch("[^,]+") do
    table.insert(cells, "\\" .. command .. "{" .. before .. word .. after .. "}")
  end
  tex.sprint(table.concat(cells, "&"))
end

-- The number of edits that make one text of another.
local function distance(first, second)
  local row = {}
  for j = 0, #second do row[j] = j end
  for i = 1, #first do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #second do
      local same = first:byte(i) == second:byte(j) and 0 or 1
      diagonal, row[j] = row[j], math.min(row[j] + 1, row[j - 1] + 1, diagonal + same)
    end
  end
  return row[#second]
end

-- The three keys of values and cells that are most like one that is unknown.
function tsnrepro.near(key)
  local edits, keys = {}, {}
  for _, file in ipairs({"values.tex", "published.tex"}) do
    local path = kpse.find_file(file, "tex")
    for line in path and io.lines(path) or function() end do
      local known = line:match("^\\tsnset{([^{}]*)}{print}")
      if known and not edits[known] then
        edits[known] = distance(key, known)
        table.insert(keys, known)
      end
    end
  end
  table.sort(keys, function(a, b) return edits[a] < edits[b] or edits[a] == edits[b] and a < b end)
  tex.sprint(-2, table.concat(keys, ", ", 1, math.min(3, #keys)))
end

function tsnrepro.pad(wanted, has)
  local missing = wanted - has
  if missing > 0 then
    local point = has == 0 and "." or ""
    tex.sprint("\\phantom{" .. point .. string.rep("0", missing) .. "}")
  end
end

return tsnrepro
