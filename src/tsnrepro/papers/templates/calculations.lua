-- Runs the calculations of tsnrepro.lua outside TeX. Its file is the argument. A line in is
-- "calc 2 expression", "decide 0 comparison" or "pad 3 1"; the line out is "good" or "error" and a text.

local said, problem
tex = {
  sprint = function(text) said = text end,
  error = function(what, why) problem = what:gsub("^Package tsnrepro Error: ", "") .. ": " .. why[1] end,
}
local numbers = dofile(arg[1])
for line in io.lines() do
  local kind, digits, what = line:match("^(%a+) (%d+) (.*)$")
  said, problem = "", nil
  if kind == "decide" then numbers.decide(what) else numbers[kind](tonumber(digits), tonumber(what) or what) end
  print(problem and "error " .. problem or "good " .. said)
  io.flush()
end
