-- Asks Headgate about a request:
--
--   http-request lua.headgate http://127.0.0.1:9091/auth/haproxy open
--
-- The second argument says what becomes of requests while Headgate does not
-- answer: "open" lets them pass, "closed" denies them with 503. HAProxy 2.6 or
-- newer. The URL holds an address, not a name, and has no TLS.

-- How long HAProxy waits for an answer of Headgate, in milliseconds. It asks up to
-- three times more when none comes (from 2.8 on, httpclient.retries 0 ends that).
local patience = 100

-- Header fields of an allowed answer: those for the client are kept in variables
-- for http-response rules, those for the application are set on the request, where
-- they also take the place of what the client has made up.
local for_client = { "ratelimit", "ratelimit-policy", "x-ratelimit-warning" }
local for_application = { "x-ratelimit-challenge" }

-- Fields of the client's request that are not for Headgate: they speak of the
-- connection or the body, or Headgate believes them and they are set below.
local kept_back = {
	["connection"] = true, ["keep-alive"] = true, ["proxy-connection"] = true,
	["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
	["content-length"] = true, ["expect"] = true, ["host"] = true,
	["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-host"] = true,
	["x-forwarded-for"] = true,
}

-- question returns the header of the sub-request about txn.
local function question(txn)
	local headers = {}
	for name, values in pairs(txn.http:req_get_headers()) do
		if not kept_back[name] then
			local list = {}
			for i = 0, #values do
				list[#list + 1] = values[i]
			end
			headers[name] = list
		end
	end
	headers["x-original-method"] = { txn.f:method() }
	headers["x-original-uri"] = { txn.f:pathq() }
	headers["x-original-host"] = { txn.f:req_hdr("host") }
	headers["x-forwarded-for"] = { txn.f:src() }
	return headers
end

local function first(headers, name)
	local values = headers and headers[name]
	return values and values[0]
end

-- refuse answers the client with what Headgate says.
local function refuse(txn, status, headers, body)
	local reply = txn:reply({ status = status })
	for name, values in pairs(headers) do
		if name ~= "content-length" and name ~= "connection" and name ~= "date" and name ~= "x-ratelimit-status" then
			for i = 0, #values do
				reply:add_header(name, values[i])
			end
		end
	end
	if txn.f:method() ~= "HEAD" then
		reply:set_body(body)
	end
	txn:done(reply)
end

local function ask(txn, url, without)
	local answer = core.httpclient():get({ url = url, headers = question(txn), timeout = patience })
	local headers = answer and answer.headers or {}
	if answer and answer.status == 200 then
		for _, name in ipairs(for_client) do
			local variable = "txn.headgate." .. name:gsub("-", "_")
			local value = first(headers, name)
			if value then
				txn:set_var(variable, value)
			end
		end
		for _, name in ipairs(for_application) do
			txn.http:req_del_header(name)
			if first(headers, name) then
				txn.http:req_set_header(name, first(headers, name))
			end
		end
		return
	end
	-- Any other answer of Headgate about the request has this field. One without it
	-- is an error on the way, or a fault in its configuration.
	local status = tonumber(first(headers, "x-ratelimit-status"))
	if status then
		refuse(txn, status, headers, answer.body or "")
		return
	end
	core.Warning("headgate did not answer: status " .. tostring(answer and answer.status))
	if without ~= "open" then
		refuse(txn, 503, { ["retry-after"] = { [0] = "1" }, ["cache-control"] = { [0] = "no-store" } }, "")
	end
end

core.register_action("headgate", { "http-req" }, ask, 2)
