-- SPDX-License-Identifier: Apache-2.0
-- roofline_plot.lua: the drawing of spec/roofline.lua as a gnuplot script.
--
-- Two panels for each device.  On the left a line for each kernel: the times that its
-- four totals take alone, on a logarithmic axis, and a ring around the largest.  On the
-- right the roofline: operations per byte against TFLOP/s, below the two roofs of the
-- device, with the figures of others beside.  Data stand in the script, so that it can
-- be drawn elsewhere.

local peers = use("spec/peers")

local M = {}

local WIDTH, HEAD, LEAST, PER_ROW, AROUND = 1500, 60, 430, 15, 110
local LEFT = 0.6 -- of the width

-- How a limit looks: the axis of colours is safe for the colour-blind (Okabe and Ito).
local MARKS = {
    bytes = { title = "bytes of DRAM", point = 7, colour = "#0072B2" },
    mma = { title = "MMA", point = 5, colour = "#D55E00" },
    port = { title = "shared-memory port", point = 9, colour = "#009E73" },
    issue = { title = "issue slots", point = 13, colour = "#CC79A7" },
}

local function microseconds(ns)
    return ns > 0 and string.format("%.4g", ns / 1000) or "NaN"
end

local function rows_of(picture, device)
    local out = {}
    for _, r in ipairs(picture.rows) do
        if r.arch == device.name then
            out[#out + 1] = r
        end
    end
    return out
end

local function height_of(picture, device)
    return math.max(LEAST, AROUND + PER_ROW * #rows_of(picture, device))
end

local function total_height(picture)
    local sum = HEAD
    for _, device in ipairs(picture.devices) do
        sum = sum + height_of(picture, device)
    end
    return sum
end

-- ---- data -------------------------------------------------------------------

-- label, predicted, then the limits in order.
local function put_limits(out, name, rows, limits)
    out("$%s << EOD", name)
    for _, r in ipairs(rows) do
        local values = { microseconds(r.predicted_ns) }
        for _, limit in ipairs(limits) do
            values[#values + 1] = microseconds(r.ns[limit])
        end
        out('"%s" %s', r.label, table.concat(values, " "))
    end
    out("EOD")
end

-- label, operations per byte, TFLOP/s of what computes at all.  Of a family only the
-- first has its label, and, where plans are drawn, those that lie elsewhere.
local function put_points(out, name, rows, counted)
    local drawn = {}
    out("$%s << EOD", name)
    for _, r in ipairs(rows) do
        if r.flops > 0 and r.bytes > 0 and r.predicted_ns > 0 then
            local x = r.flops / r.bytes
            local first = drawn[r.family]
            local near = first and (counted or x / first < 1.5 and first / x < 1.5)
            local label = near and "" or string.match(r.label, "^[^:]+")
            out('"%s" %.4g %.4g', label, x, r.flops / r.predicted_ns / 1000)
            drawn[r.family] = drawn[r.family] or x
        end
    end
    out("EOD")
end

-- ---- panels -----------------------------------------------------------------

local function put_left(out, name, device, rows, limits)
    out('set title "%s: microseconds that each limit takes by itself"', device.title)
    out("set logscale x 10\nset format x '%%g'\nunset logscale y\nset autoscale x")
    out("set yrange [%d.7:-0.7]\nset ytics out nomirror font ',8'", #rows - 1)
    out("set key outside top center horizontal\nset grid x\nunset xlabel\nunset ylabel")
    local parts = {
        string.format("$%s using 2:0:yticlabel(1) with points pt 6 ps 1.5 lw 1.5 "
            .. "lc rgb '#000000' title 'the largest: predicted'", name),
    }
    for i, limit in ipairs(limits) do
        local mark = MARKS[limit]
        parts[#parts + 1] = string.format("$%s using %d:0 with points pt %d ps 0.7 lc rgb '%s' "
            .. "title '%s'", name, i + 2, mark.point, mark.colour, mark.title)
    end
    out("plot %s", table.concat(parts, ", \\\n  "))
end

local function put_right(out, name, device, dims)
    local per_second = device.clk_mhz / 1e6 -- per clock -> tera per second
    local bandwidth = device.bytes_per_clk * per_second
    local peak = 2 * device.mma_fma_clk * device.sm_count * per_second
    out('set title "%s: %.0f GB/s, %.0f TFLOP/s at %d MHz"', device.title,
        1000 * bandwidth, peak, device.clk_mhz)
    out("set xrange [1:8192]\nset logscale x 2\nset logscale y 10\nset yrange [%.4g:%.4g]",
        bandwidth, 4 * peak)
    out("set format y '%%g'\nset ytics in mirror autofreq font ',9'\nset grid x y")
    out("set xlabel 'operations per byte'\nset ylabel 'TFLOP/s'")
    out("set key inside bottom right vertical font ',8'")
    local parts = {
        string.format("%.6g * x < %.6g ? %.6g * x : %.6g with lines lw 2 lc rgb '#555555' "
            .. "title 'roofs: DRAM, MMA'", bandwidth, peak, bandwidth, peak),
        string.format("$%s using 2:3 with points pt 6 ps 1.2 lc rgb '#000000' title 'predicted'", name),
        string.format("$%s using 2:3:1 with labels left rotate by 35 offset 0.5,0.5 font ',8' notitle", name),
    }
    for i, f in ipairs(peers.of(device.name, dims)) do
        parts[#parts + 1] = string.format("'+' using (%.4g):(%.4g) every ::0::0 with points pt %d ps 1.3 "
            .. "lc %d title '%s'", f.intensity, f.tflops, 1 + (i - 1) % 3, i, f.name)
    end
    out("plot %s", table.concat(parts, ", \\\n  "))
end

-- ---- the script -------------------------------------------------------------

local function title(p)
    local w = p.work
    if p.counted then
        return string.format("%s: counters of the virtual GPU", p.model)
    end
    local missing = #p.missing > 0 and "; not modelled: " .. table.concat(p.missing, ", ") or ""
    return string.format("%s: decode of %d x %d tokens over %d keys, prefill of %d tokens%s", p.model,
        w.batch, w.q_len, w.seq_len, w.seq_len, missing)
end

local function terminal(p)
    if p.format == "png" then
        return string.format("pngcairo size %d,%d font 'sans,9' background '#ffffff'", WIDTH,
            total_height(p))
    end
    return string.format("svg size %d,%d dynamic font 'sans,10' background '#ffffff'", WIDTH,
        total_height(p))
end

-- script(picture): see spec/roofline.lua for its fields.
function M.script(p)
    local lines = {}
    local function out(format, ...)
        lines[#lines + 1] = string.format(format, ...)
    end
    local height = total_height(p)
    local top = height - HEAD
    out("set terminal %s\nset termoption noenhanced", terminal(p))
    out('set multiplot title "%s\\npoints of others: as published, on their machines"', title(p))
    for i, device in ipairs(p.devices) do
        local rows = rows_of(p, device)
        local own = height_of(p, device)
        top = top - own
        put_limits(out, "limits" .. i, rows, p.limits)
        put_points(out, "points" .. i, rows, p.counted)
        out("set size %.2f,%.5f\nset origin 0,%.5f", LEFT, own / height, top / height)
        put_left(out, "limits" .. i, device, rows, p.limits)
        out("set size %.2f,%.5f\nset origin %.2f,%.5f", 1 - LEFT, own / height, LEFT, top / height)
        put_right(out, "points" .. i, device, p.dims)
    end
    out("unset multiplot")
    return table.concat(lines, "\n") .. "\n"
end

return M
