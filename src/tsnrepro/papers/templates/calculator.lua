-- Evaluates the calculations of tsnrepro.lua, whose path is the argument, outside TeX. An input line is
-- "calc 2 expression", "decide 0 comparison" or "pad 3 1"; an output line is "good" or "error" and a text.

local output, problem
tex = {
  sprint = function(text) output = text end,
  error = function(what, why) problem = what:gsub("^Package tsnrepro Error: ", "") .. ": " .. why[1] end,
}
local tsnrepro = dofile(arg[1])
for line in io.lines() do
  local name, digits, argument = line:match("^(%a+) (%d+) (.*)$")
  output, problem = "", nil
  if name == "decide" then tsnrepro.decide(argument)
  else tsnrepro[name](tonumber(digits), name == "pad" and tonumber(argument) or argument) end
  print(problem and "error " .. problem or "good " .. output)
  io.flush()
end
