#include "cli/plan_subject.h"

#include <algorithm>

#include "hub/catalog.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

const models::NamedShape* find_shape(std::string_view name) {
    const std::span<const models::NamedShape> shapes = models::named_shapes();
    const auto found = std::ranges::find(shapes, name, &models::NamedShape::name);
    return found == shapes.end() ? nullptr : &*found;
}

std::string usual_type(const models::SyntheticSpec& spec) {
    return std::string(spec.mix ? spec.mix->name : name(spec.type));
}

Result<PlannedModel> open_file(const std::string& name) {
    PlannedModel planned{.name = name, .what = "the file", .empty = {}, .checkpoint = {}, .model = {}};
    planned.checkpoint = std::make_unique<format::Checkpoint>(TRY(user::open_checkpoint(name)));
    planned.model = TRY(models::load(*planned.checkpoint));
    return planned;
}

std::string shape_names() {
    std::string names;
    for (const models::NamedShape& each : models::named_shapes())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
    return names;
}

}  // namespace

const models::NamedShape* shape_of_catalog(std::string_view name) {
    const hub::CatalogEntry* const entry = hub::find_in_catalog(name);
    if (entry == nullptr) return nullptr;
    std::string shape(entry->name);
    std::replace(shape.begin(), shape.end(), ':', '-');
    return find_shape(shape);
}

Result<PlannedModel> open_shape(const models::NamedShape& shape, const std::string& name) {
    PlannedModel planned{.name = name,
                         .what = fmt::format("a shape in {}", usual_type(shape.spec)),
                         .empty = TRY(models::make_empty_gguf(shape.spec)),
                         .checkpoint = {},
                         .model = {}};
    planned.checkpoint = std::make_unique<format::Checkpoint>(
        TRY(format::Checkpoint::from_gguf(planned.empty.bytes(), std::string(name))));
    planned.model = TRY(models::load(*planned.checkpoint));
    return planned;
}

Result<PlannedModel> open_planned(const std::string& name, std::optional<DType> type) {
    const models::NamedShape* shape = find_shape(name);
    if (shape == nullptr && !user::names_a_model(name)) {
        const Result<hub::LocalModel> here = user::require_model(name);
        if (!here) shape = shape_of_catalog(name);
        if (!here && shape == nullptr)
            return fail("{}, nor the name of a shape ({})", here.error().message, shape_names());
    }
    if (shape == nullptr) {
        PlannedModel planned = TRY(open_file(name));
        if (!type) return planned;
        planned.what = fmt::format("the file, as if its matrices were {}", tandem::name(*type));
        planned.model.program = with_type(planned.model.program, *type);
        return planned;
    }
    models::NamedShape typed = *shape;
    if (type) typed.spec.mix = models::plain_mix(*type);  // as `tandem bench --type` makes it
    return open_shape(typed, name);
}

graph::Program with_type(const graph::Program& program, DType type) {
    graph::Program changed = program;
    for (graph::Value& value : changed.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        std::vector<int64_t> shape;
        for (const graph::Dim& dim : value.type.shape) shape.push_back(dim.count);
        const models::TensorShape tensor{.name = value.name, .shape = shape, .dtype = value.type.dtype};
        if (models::is_quantizable(tensor)) value.type.dtype = models::suited(type, shape.back());
    }
    return changed;
}

}  // namespace tandem::cli
