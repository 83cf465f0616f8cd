-- sysbench: look-ups in row_part with the keys of a CSV file (--keys-file), prepared; every answer must be one row.

sysbench.cmdline.options = {
   keys_file = {"CSV file of keys: 5,blush chiffon", "keys.csv"},
   table = {"the table", "row_part"},
}

local keys = {}

function thread_init()
   for line in io.lines(sysbench.opt.keys_file) do
      local key, name = line:match('^"?(%d+)"?,"?([^"]+)"?$')
      keys[#keys + 1] = {tonumber(key), name}
   end
   driver = sysbench.sql.driver()
   connection = driver:connect()
   statement = connection:prepare("SELECT * FROM " .. sysbench.opt.table .. " WHERE p_partkey = ? AND p_name = ?")
   part = statement:bind_create(sysbench.sql.type.INT)
   name = statement:bind_create(sysbench.sql.type.VARCHAR, 69)
   statement:bind_param(part, name)
end

function event()
   local key = keys[sysbench.rand.uniform(1, #keys)]
   part:set(key[1])
   name:set(key[2])
   local rows = statement:execute()
   if rows.nrows ~= 1 then
      error(rows.nrows .. " rows for key " .. key[1])
   end
   rows:free()
end

function thread_done()
   statement:close()
   connection:disconnect()
end
